import { setTimeout as delay } from "node:timers/promises";

/** Options of eventually. */
export interface EventuallyOptions {
  /** How long the condition may take. @default 30,000 */
  readonly deadlineMs?: number | undefined;
  /** Pause between two looks. @default 20 */
  readonly intervalMs?: number | undefined;
}

type Truthy<Value> = Exclude<Value, false | 0 | "" | null | undefined>;

/**
 * Waits until `check` resolves to a truthy value (or to nothing, for a check made of assertions) without throwing.
 *
 * @returns the value that `check` resolved to
 * @throws Error with what `check` last said, once the deadline has passed
 */
export async function eventually<Value>(
  check: () => Value | Promise<Value>,
  options: EventuallyOptions = {},
): Promise<Truthy<Value>> {
  const deadlineMs = options.deadlineMs ?? 30_000;
  const until = performance.now() + deadlineMs;
  for (;;) {
    let last: unknown;
    try {
      const value = await check();
      if (value === undefined || Boolean(value)) return value as Truthy<Value>;
      last = new Error(`The check resolved to ${JSON.stringify(value)}.`);
    } catch (error) {
      last = error;
    }
    if (performance.now() >= until) {
      const fact = last instanceof Error ? last.message : String(last);
      throw new Error(`Not within ${deadlineMs} ms: ${fact}`, { cause: last });
    }
    await delay(options.intervalMs ?? 20);
  }
}
