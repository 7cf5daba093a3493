import {
  canonicalUuid,
  type JobDefinition,
  JobNotFoundError,
  type Logger,
  silentLogger,
} from "@waybill/core";
import {
  checkOptions,
  definitionRule,
  integerRule,
  optional,
  type OptionRule,
  textRule,
} from "./check-options.ts";
import { JobHints } from "./job-hints.ts";
import type { JobListener } from "./job-listener.ts";
import { checkDefinition, resultOf, waitedTooLong } from "./job-result.ts";
import type { JobSnapshot } from "./job-snapshot.ts";
import { JobWatch } from "./job-watch.ts";
import { type InTransaction, JobWatches } from "./job-watches.ts";
import type { JobResult, ResultOptions, WatchOptions } from "./jobs-options.ts";
import { jobChannel, statementsFor } from "./statements.ts";

/** Following jobs to their end. */
export interface JobWatching {
  /**
   * The present state of a job, then each change that lasts, until it has ended: changes that are
   * faster than the loop are merged, and its end is always told. Leaving the loop or aborting the
   * signal releases whatever the watch holds. A database that is away is waited for.
   *
   * The loop throws the signal's reason when it is aborted, JobNotFoundError where there is no such
   * job, ConfigError where the id is one of several queues and none was given, and errors of the
   * database that trying again does not mend.
   *
   * @example
   * for await (const { state, progress } of jobs.watch(jobId)) console.log(state, progress?.percent);
   */
  watch(id: string, options?: WatchOptions): AsyncIterable<JobSnapshot>;
  /**
   * What the handler gave back, once the job has succeeded: parsed JSON; undefined where nothing is
   * stored. With the job's definition it is validated by its schema, and typed.
   *
   * @throws JobFailedError where the job fails for good, JobCancelledError where it is cancelled, a
   *   DOMException `TimeoutError` after `timeoutMs`, the signal's reason when it is aborted,
   *   PayloadError where the definition's schema refuses the result, PayloadUnavailableError where
   *   that needs one and none is stored; and as the loop over `watch` does
   */
  result<J extends JobDefinition>(
    id: string,
    options: ResultOptions & { readonly job: J },
  ): Promise<JobResult<J>>;
  result(id: string, options?: ResultOptions): Promise<unknown>;
}

/** What {@link createJobWatching} is made of. */
export interface JobWatchingOptions {
  readonly inTransaction: InTransaction;
  readonly schema: string;
  readonly listener: JobListener | undefined;
  readonly logger: Logger | undefined;
}

const signalRule: OptionRule = (value) => value instanceof AbortSignal || "must be an AbortSignal";
const watchRules = { queue: optional(textRule(63)), signal: optional(signalRule) };
const resultRules = {
  ...watchRules,
  timeoutMs: optional(integerRule(1, 2_147_483_647)),
  job: optional(definitionRule),
};

/** Makes `watch` and `result`. Nothing runs before the first loop. */
export function createJobWatching(options: JobWatchingOptions): JobWatching {
  const { inTransaction, schema, listener, logger = silentLogger } = options;
  const statements = statementsFor(schema);
  const watches = new JobWatches({
    statements,
    inTransaction,
    logger,
    makeHints: (on) =>
      listener === undefined
        ? undefined
        : new JobHints({
            listener,
            channel: jobChannel(schema),
            statement: statements.listen_jobs.text,
            logger,
            notify: (word) => inTransaction((run) => run(statements.notify_jobs, [word])),
            ...on,
          }),
  });

  const begin = (
    id: string,
    queue: string | undefined,
    signals: readonly (AbortSignal | undefined)[],
  ): JobWatch => {
    const canonical = canonicalUuid(id);
    const watch = new JobWatch({
      id: canonical ?? id.slice(0, 80),
      queue,
      signals: signals.filter((signal) => signal !== undefined),
      host: watches,
    });
    if (canonical === undefined) watch.fail(new JobNotFoundError(watch.id));
    return watch;
  };

  return {
    watch(id, watched = {}) {
      checkOptions("jobs.watch", watched, watchRules);
      return { [Symbol.asyncIterator]: () => begin(id, watched.queue, [watched.signal]) };
    },

    async result(id: string, wanted: ResultOptions = {}): Promise<never> {
      checkOptions("jobs.result", wanted, resultRules);
      const { queue, signal, timeoutMs, job } = wanted;
      const late = new AbortController();
      let last: JobSnapshot | undefined;
      const timer =
        timeoutMs === undefined
          ? undefined
          : setTimeout(() => late.abort(waitedTooLong(id, timeoutMs, last)), timeoutMs);
      try {
        for await (const snapshot of begin(id, queue, [signal, late.signal])) {
          checkDefinition("jobs.result", job, snapshot);
          last = snapshot;
        }
      } finally {
        clearTimeout(timer);
      }
      if (last === undefined) throw new JobNotFoundError(id);
      return (await resultOf(job, last)) as never;
    },
  };
}
