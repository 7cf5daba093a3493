import type { Logger } from "@waybill/core";
import { exitCodes } from "./exit-codes.ts";

/** What SIGINT does to a command that is no daemon: its transaction, if any, is rolled back. */
export function exitInterrupted(): void {
  process.exit(exitCodes.interrupted);
}

/** A signal that SIGTERM and SIGINT abort. */
export interface StopSignals extends Disposable {
  readonly signal: AbortSignal;
}

/**
 * Turns SIGTERM and SIGINT into an abort: the daemon drains. The second one ends the process at
 * once; what ran then is taken over by others, as after a crash.
 */
export function onStopSignals(logger: Logger): StopSignals {
  const controller = new AbortController();
  const stop = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) {
      logger.warn({ signal: name }, "second signal, ending at once");
      process.exit(name === "SIGINT" ? exitCodes.interrupted : exitCodes.failure);
    }
    logger.info({ signal: name }, "stopping, send the signal again to end at once");
    controller.abort();
  };
  process.removeListener("SIGINT", exitInterrupted);
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      process.removeListener("SIGTERM", stop);
      process.removeListener("SIGINT", stop);
    },
  };
}
