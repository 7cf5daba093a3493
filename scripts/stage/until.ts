import { setTimeout as sleep } from "node:timers/promises";

/**
 * Looks every `intervalMs` until `check` gives a value.
 *
 * @throws Error that names `what` after `deadlineMs`
 */
export async function until<Value>(
  what: string,
  check: () => Promise<Value | undefined>,
  limits: {
    readonly deadlineMs: number;
    readonly intervalMs?: number;
    readonly signal: AbortSignal;
  },
): Promise<Value> {
  const end = performance.now() + limits.deadlineMs;
  for (;;) {
    const value = await check();
    if (value !== undefined) return value;
    if (performance.now() > end) {
      throw new Error(`Waited ${limits.deadlineMs / 1_000} s in vain: ${what}.`);
    }
    await sleep(limits.intervalMs ?? 50, undefined, { signal: limits.signal });
  }
}
