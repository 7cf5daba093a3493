/** Waits so long, or until the signal. Never rejects. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const stop = (): void => resolve();
  signal.addEventListener("abort", stop, { once: true });
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}

/** Delay before the next try after so many failures: doubling, capped, upper half at random. */
export function retryDelayMs(
  failures: number,
  firstMs: number,
  mostMs: number,
  random: () => number,
): number {
  const bound = Math.min(mostMs, firstMs * 2 ** Math.min(20, Math.max(0, failures - 1)));
  return bound / 2 + (random() * bound) / 2;
}
