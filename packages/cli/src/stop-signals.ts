import type { Logger } from "@waybill/core";
import { exitCodes } from "./exit-codes.ts";

/** What SIGINT does to a command that is no daemon: its transaction, if any, is rolled back. */
export function exitInterrupted(): void {
  process.exit(exitCodes.interrupted);
}

/** What SIGTERM and SIGINT abort. */
export interface StopSignals extends Disposable {
  /** Aborted by the first one: drain. */
  readonly signal: AbortSignal;
  /** Aborted by the second one, where it hurries: hand back what runs, now. */
  readonly hurrySignal: AbortSignal;
}

/** What the second signal does to a daemon. */
export type SecondSignal = "hurry" | "end";

/**
 * Turns SIGTERM and SIGINT into aborts: the daemon drains. A second one hurries the drain, where
 * there is something to hurry; one more ends the process at once: what ran then is taken over by
 * others, as after a crash.
 */
export function onStopSignals(logger: Logger, second: SecondSignal): StopSignals {
  const draining = new AbortController();
  const hurrying = new AbortController();
  const stop = (name: NodeJS.Signals): void => {
    if (!draining.signal.aborted) {
      const next = second === "hurry" ? "not to wait for running jobs" : "to end at once";
      logger.info({ signal: name }, `stopping, send the signal again ${next}`);
      draining.abort();
    } else if (second === "hurry" && !hurrying.signal.aborted) {
      logger.warn(
        { signal: name },
        "handing running jobs back, send the signal again to end at once",
      );
      hurrying.abort();
    } else {
      logger.warn({ signal: name }, "one more signal, ending at once");
      process.exit(name === "SIGINT" ? exitCodes.interrupted : exitCodes.failure);
    }
  };
  process.removeListener("SIGINT", exitInterrupted);
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  return {
    signal: draining.signal,
    hurrySignal: hurrying.signal,
    [Symbol.dispose]: () => {
      process.removeListener("SIGTERM", stop);
      process.removeListener("SIGINT", stop);
    },
  };
}
