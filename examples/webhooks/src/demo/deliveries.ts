import { createRequire } from "node:module";
import { chance, chosenUuid } from "../../../../scripts/stage/chance.ts";

/** A webhook as GitHub would send it. */
export interface Delivery {
  readonly deliveryId: string;
  readonly event: string;
  /** The payload as JSON text. */
  readonly body: string;
  /** The service is asked to fail after everything is written: nothing of it may remain. */
  readonly rollBack: boolean;
}

interface Example {
  readonly event: string;
  readonly body: string;
}

/** Every example payload that the package has for github.com. */
export function readExamples(): readonly Example[] {
  const definitions = createRequire(import.meta.url)("@octokit/webhooks-examples") as readonly {
    readonly name: string;
    readonly examples: readonly unknown[];
  }[];
  return definitions.flatMap(({ name, examples }) =>
    examples.map((example) => ({ event: name, body: JSON.stringify(example) })),
  );
}

const rollBackShare = 0.03;
const repeatShare = 0.03;

/**
 * The deliveries of a run, in order: the examples over and over until `events` of them can be
 * stored. Some are to be rolled back, some come a second time a little later, as GitHub does when
 * it had no answer. Which ones follows from the seed.
 */
export function planDeliveries(
  examples: readonly Example[],
  events: number,
  seed: number,
): readonly Delivery[] {
  const plan: Delivery[] = [];
  let stored = 0;
  for (let n = 0; stored < events; n++) {
    const example = examples[n % examples.length];
    if (example === undefined) throw new Error("Cannot plan: there are no example payloads.");
    const rollBack = chance(seed, "roll back", n) < rollBackShare;
    plan.push({ ...example, deliveryId: chosenUuid(seed, "delivery", n), rollBack });
    if (!rollBack) stored += 1;

    const earlier = plan[plan.length - 1 - Math.floor(chance(seed, "which", n) * 20)];
    const repeat = chance(seed, "repeat", n) < repeatShare;
    if (repeat && earlier !== undefined && !earlier.rollBack) plan.push(earlier);
  }
  return plan;
}
