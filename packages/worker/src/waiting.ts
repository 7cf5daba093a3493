import { setTimeout as delay } from "node:timers/promises";

/** Resolves when the signal has aborted. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  await promise;
}

/** Waits for at most `milliseconds`; false if that was not enough, or `hurry` has aborted before. */
export async function within(
  milliseconds: number,
  work: Promise<unknown>,
  hurry?: AbortSignal,
): Promise<boolean> {
  const timer = new AbortController();
  const stop = (): void => timer.abort();
  if (hurry?.aborted === true) timer.abort();
  hurry?.addEventListener("abort", stop, { once: true });
  const timeout = delay(milliseconds, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([work.then(() => true), timeout]);
  } finally {
    timer.abort();
    hurry?.removeEventListener("abort", stop);
  }
}
