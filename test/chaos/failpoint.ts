/** Lets a process of a run fail at a named point of the product, through the hook that tests inject. */

/** What happens at which point, how often it is passed before, and until when. */
export interface FailpointPlan {
  readonly point: string;
  /** Passes until it happens; 1: the first. */
  readonly pass: number;
  readonly action: "throw" | "hang" | "exit";
  /** Nothing happens after this time, in milliseconds since 1970: the faults are over. */
  readonly untilMs: number;
}

/** What the process says when it happens; the run waits for it. */
export const reachedPattern = /^reached (\S+) (throw|hang|exit)$/;

/**
 * The hook for a plan, as JSON; one that does nothing for undefined.
 *
 * @param hang what "hang" is there: never to return, or never to resolve
 */
export function failpointOf<Result>(
  text: string | undefined,
  hang: () => Result,
): (name: string) => Result | undefined {
  if (text === undefined) return () => undefined;
  const plan = JSON.parse(text) as FailpointPlan;
  let passed = 0;
  return (name) => {
    if (name !== plan.point || Date.now() > plan.untilMs) return undefined;
    passed += 1;
    if (passed !== plan.pass) return undefined;
    process.stdout.write(`reached ${plan.point} ${plan.action}\n`);
    if (plan.action === "exit") process.exit(137);
    if (plan.action === "hang") return hang();
    throw new Error(`failpoint ${plan.point}`);
  };
}
