/**
 * Errors that no promise carries to the worker: a throw in a timer or in a listener, the "error" of
 * a socket that nobody listens to, the rejection of a forgotten promise. Node would end the process
 * for each of them, and with it the jobs of the neighbours.
 *
 * Node tells of them in the asynchronous context that they come from, so `currentJob` says whose
 * they are, and only that attempt fails. Where it names no job, the state of the process is in
 * doubt: its workers are told, drain, and let it start anew. Either way a job is settled only by the
 * end of its attempt, so a process that dies meanwhile has acked nothing wrongly.
 *
 * The context is that in which a callback was handed over, not that of the code that wrote it. It
 * names no job for a listener on an emitter that others emit on, and names the first job for a
 * connection that one job opened and others share.
 */

import { setImmediate as turn } from "node:timers/promises";
import { types } from "node:util";
import { failureOf, type Logger } from "@waybill/core";
import { type CurrentJob, currentJob } from "./current-job.ts";

/** What a worker wants done about stray errors. */
export interface StrayErrorsOptions {
  readonly logger: Logger;
  /** Called for each error outside any job. Must not throw: Node ends the process for that. */
  readonly onUnattributed: (error: Error) => void;
}

/**
 * One worker's part in what the process does about stray errors. The listeners on `process` are
 * there while any worker has installed its part. They are additive: an application's own
 * listeners get each event as well, and one that ends the process still does.
 */
export class StrayErrors {
  static readonly #installed = new Set<StrayErrors>();
  readonly #options: StrayErrorsOptions;

  constructor(options: StrayErrorsOptions) {
    this.#options = options;
  }

  /** Twice is as good as once. */
  install(): void {
    if (StrayErrors.#installed.size === 0) {
      process.on("uncaughtException", StrayErrors.#onException);
      process.on("unhandledRejection", StrayErrors.#meet);
    }
    StrayErrors.#installed.add(this);
  }

  /** Twice is as good as once. */
  remove(): void {
    if (!StrayErrors.#installed.delete(this) || StrayErrors.#installed.size > 0) return;
    process.off("uncaughtException", StrayErrors.#onException);
    process.off("unhandledRejection", StrayErrors.#meet);
  }

  static readonly #onException = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin): void => {
    // With --unhandled-rejections=strict a rejection comes here first, and then by its own event.
    if (origin !== "unhandledRejection") StrayErrors.#meet(error);
  };

  static readonly #meet = (error: unknown): void => {
    const job = currentJob.getStore();
    if (job !== undefined) {
      failJob(job, error);
      return;
    }
    const err = errorOf(error);
    for (const each of StrayErrors.#installed) {
      each.#options.logger.error({ err }, "error outside any job");
      each.#options.onUnattributed(err);
    }
  };
}

function failJob(job: CurrentJob, error: unknown): void {
  const { jobId, jobName, queue, attempt, logger } = job;
  const fields = { jobId, jobName, queue, attempt, err: errorOf(error) };
  if (job.ended()) {
    logger.error(fields, "error outside the handler's promise, after the job had ended");
    return;
  }
  logger.error(fields, "error outside the handler's promise");
  job.fail(error);
}

/** Anything can be thrown; whoever reads the log or the exit wants an Error. */
function errorOf(error: unknown): Error {
  // instanceof would ask a proxy, which may throw.
  return types.isNativeError(error) ? error : new Error(failureOf(error).message, { cause: error });
}

/**
 * Resolves when Node has told of every rejection that nobody has handled by now. It does so only
 * after all microtasks: without this wait, a handler that forgets a promise which rejects at once
 * has succeeded before anybody hears of it.
 */
export async function strayErrorsMet(): Promise<void> {
  await turn();
}
