import type { Logger } from "@waybill/core";
import { sqlStateOf } from "@waybill/postgres";
import { pause, retryDelayMs } from "./pause.ts";

/** Options of {@link runUpkeep}. */
export interface UpkeepOptions {
  /** Shown in logs: "timers", "partition keeper". */
  readonly name: string;
  readonly logger: Logger;
  readonly random: () => number;
  /** Does a piece of work; resolves to the milliseconds until the next. */
  readonly work: () => Promise<number>;
  /** Called before each piece of work with the function that ends the wait after it. */
  readonly onWake?: ((wake: () => void) => void) | undefined;
}

/** States of a lock that was not to be had: tried again, and nothing to tell. */
const lockStates = new Set(["55P03", "40P01", "40001", "57014"]);

/**
 * Runs one piece of upkeep until the signal. Never rejects: an error is logged once, when it begins,
 * and the work goes on after a while.
 */
export async function runUpkeep(options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  const { name, logger, random, work } = options;
  let failures = 0;
  while (!signal.aborted) {
    const woken = Promise.withResolvers<void>();
    // Before the work: what comes while it looks may be what it has just missed.
    options.onWake?.(woken.resolve);
    let delayMs: number;
    try {
      delayMs = await work();
      if (failures > 0) logger.info({ loop: name }, "upkeep works again");
      failures = 0;
    } catch (err) {
      failures += 1;
      delayMs = retryDelayMs(failures, 200, 10_000, random);
      const isLock = lockStates.has(sqlStateOf(err) ?? "");
      if (isLock) logger.debug({ loop: name, err }, "upkeep waits for a lock");
      else if (failures === 1 && !signal.aborted) logger.warn({ loop: name, err }, "upkeep failed");
    }
    await Promise.race([pause(delayMs, signal), woken.promise]);
  }
}
