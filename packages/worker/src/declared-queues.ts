/**
 * What a worker's code says of its queues, and how it gets into the database: the settings of
 * `defineQueue`, and the dependencies of job types, which may be spread over several workers.
 */

import { isDeepStrictEqual } from "node:util";
import type { Logger, QueueDefinition } from "@waybill/core";
import type { DeclaredSettings, FlowStore } from "@waybill/postgres";

/** What the code says of one queue. */
export interface QueueDeclaration {
  readonly queue: string;
  readonly definition: QueueDefinition | undefined;
  /** Dependencies of each job type of the queue that has a handler here; most have none. */
  readonly dependencies: ReadonlyMap<string, readonly string[]>;
}

type Fields = Readonly<Record<string, unknown>>;

/** Tries to write beside other workers that start at the same moment. */
const triesMax = 10;

const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
const namesOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((name) => typeof name === "string") : [];

function without(fields: Fields, name: string): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => key !== name));
}

/**
 * The settings to store for a queue. A definition replaces what was declared before, and without one
 * nothing is changed, except that the dependencies of job types are those of the worker that runs
 * them: other workers' types keep theirs.
 *
 * @param stored what is declared now, `{}` for nothing
 */
export function settingsOf(
  stored: DeclaredSettings,
  { definition, dependencies }: QueueDeclaration,
): DeclaredSettings {
  const base: Fields = fieldsOf(JSON.parse(JSON.stringify(definition?.settings ?? stored)));
  const defined = fieldsOf(definition?.settings.types);
  const before = fieldsOf(stored["types"]);
  const types = new Map(Object.entries(fieldsOf(base["types"])));
  for (const type of new Set([...types.keys(), ...Object.keys(before), ...dependencies.keys()])) {
    const own = dependencies.get(type) ?? namesOf(fieldsOf(before[type])["dependsOn"]);
    const names = [...new Set([...namesOf(fieldsOf(defined[type])["dependsOn"]), ...own])];
    const limits = without(fieldsOf(types.get(type)), "dependsOn");
    const said = names.length === 0 ? limits : { ...limits, dependsOn: names };
    if (Object.keys(said).length === 0) types.delete(type);
    else types.set(type, said);
  }
  const settings = without(base, "types");
  return types.size === 0 ? settings : { ...settings, types: Object.fromEntries(types) };
}

/**
 * Writes what differs from what is stored, and nothing else: each change makes relays and workers read
 * all settings again.
 *
 * @throws the driver's error
 */
export async function declareQueues(
  store: Pick<FlowStore, "declared" | "declare">,
  declarations: readonly QueueDeclaration[],
  logger: Logger,
): Promise<void> {
  let left = declarations;
  for (let tries = 0; left.length > 0 && tries < triesMax; tries += 1) {
    const stored = await store.declared(left.map(({ queue }) => queue));
    const late: QueueDeclaration[] = [];
    for (const declaration of left) {
      const { queue } = declaration;
      const before = stored.get(queue) ?? {};
      const settings = settingsOf(before, declaration);
      if (isDeepStrictEqual(settings, before)) continue;
      if (await store.declare(queue, settings, before)) {
        logger.info({ queue, settings }, "queue declared");
      } else late.push(declaration);
    }
    left = late;
  }
  for (const { queue } of left) {
    logger.warn({ queue }, "queue not declared: other workers declare it again and again");
  }
}
