/**
 * The state of jobs, and what an operator does to them. Reads go to the view waybill.job; every act
 * is one statement that decides by the inbox row as it is at that moment, and leaves a row in
 * waybill.audit_log.
 */

import {
  canonicalUuid,
  ConfigError,
  InvalidTransitionError,
  isTerminal,
  JobNotFoundError,
  type JobState,
  jobStates,
  PayloadUnavailableError,
  safeLogger,
} from "@waybill/core";
import {
  actRules,
  anything,
  checkOptions,
  integerRule,
  keysRule,
  optional,
  type OptionRule,
  textRule,
} from "./check-options.ts";
import type { Row } from "./executor.ts";
import { deadLetterOf, type JobRecord, jobRecordOf, jobSummaryOf } from "./job-record.ts";
import { createJobErasure, type JobErasure } from "./job-erasure.ts";
import { createJobExplaining, type JobExplaining } from "./job-explaining.ts";
import { jobPage, pageLimitDefault, pagePlace } from "./job-pages.ts";
import { createJobWatching, type JobWatching } from "./job-watching.ts";
import type { JsonRow } from "./json-row.ts";
import type {
  ActOptions,
  DeadLetterFilter,
  DeadLetterPage,
  JobCounts,
  JobFilter,
  JobPage,
  JobSelector,
  JobsOptions,
} from "./jobs-options.ts";
import { operatorOf } from "./operator.ts";
import {
  decodeCursor,
  encodeCursor,
  queueMax,
  queueShape,
  uuidMax,
  uuidShape,
} from "./page-cursor.ts";
import type { RunStatement } from "./transactions.ts";
import { createWaitingActs, type WaitingActs } from "./waiting-acts.ts";

/** What {@link createJobs} makes. */
export interface Jobs<Tx> extends JobWatching, WaitingActs<Tx>, JobExplaining<Tx>, JobErasure<Tx> {
  /**
   * A job with its history.
   *
   * @throws JobNotFoundError where there is none
   * @throws ConfigError where the id is one of several queues and none was given
   */
  get(id: string, selector?: JobSelector<Tx>): Promise<JobRecord>;
  /**
   * A page of jobs, newest first by id. A call looks at 100,000 jobs at most, so a page of a rare
   * state may hold fewer jobs than its limit, even none, and still have a next one.
   */
  list(filter?: JobFilter<Tx>): Promise<JobPage>;
  /** Numbers of jobs. Reads the keys of every job: about a second for a million of them. */
  counts(selector?: { readonly tx?: Tx | undefined }): Promise<JobCounts>;
  /**
   * Cancels a job: a queued or waiting one has ended when this resolves; a running one is asked to
   * end, and does so when its handler heeds `job.signal`.
   *
   * @returns the state that the job has now: `cancelled`, or `running`
   * @throws InvalidTransitionError where it has ended, JobNotFoundError where there is none
   */
  cancel(id: string, options?: ActOptions<Tx>): Promise<"cancelled" | "running">;
  /**
   * Redrives a failed job: a fresh series of attempts with the same id and payload, dispatched at
   * once. Of two callers at the same time one succeeds.
   *
   * @throws InvalidTransitionError where it has not failed, JobNotFoundError where there is none,
   *   PayloadUnavailableError where its payload is past its retention, or was erased
   */
  retry(id: string, options?: ActOptions<Tx>): Promise<void>;
  /**
   * Lets a message that waits go at once: a delayed job, a retry, a job that no worker knew, or that
   * the broker refused. So the first job of an ordering key stops to block it until its next attempt.
   *
   * @returns how many messages were released
   * @throws InvalidTransitionError where none waits, JobNotFoundError where there is none
   */
  release(id: string, options?: ActOptions<Tx>): Promise<number>;
  /** A page of the jobs that failed and can be redriven, newest first. */
  listDeadLetters(filter?: DeadLetterFilter<Tx>): Promise<DeadLetterPage>;
}

const filterRules = {
  queue: optional(textRule(63)),
  type: optional(textRule(255)),
  limit: optional(integerRule(1, 200)),
  cursor: anything,
  tx: anything,
};

const listenerRule: OptionRule = (value) =>
  (typeof value === "object" && value !== null && "listen" in value) ||
  "must be a JobListener, as pgListener and postgresJsListener make one";

const noCounts = (): Record<JobState, number> => ({
  queued: 0,
  running: 0,
  retry_waiting: 0,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
});

const jsonOf = (row: Row | undefined, column: string): JsonRow =>
  JSON.parse(String(row?.[column])) as JsonRow;

/**
 * Makes the reader and operator of jobs.
 *
 * @throws ConfigError for options that are unknown or out of bounds, NameError for the schema
 */
export function createJobs<Tx>(options: JobsOptions<Tx>): Jobs<Tx> {
  const operator = operatorOf("createJobs", options, {
    listener: optional(listenerRule),
    logger: anything,
    encryption: optional(keysRule),
  });
  const { statements, within, schema, actor: defaultActor } = operator;
  const { listener, encryption } = options;
  const logger = options.logger === undefined ? undefined : safeLogger(options.logger);

  const find = async (
    run: RunStatement,
    id: string,
    queue: string | undefined,
  ): Promise<JobRecord> => {
    const canonical = canonicalUuid(id);
    if (canonical === undefined) throw new JobNotFoundError(id.slice(0, 80));
    const rows = await run(statements.get_jobs, [canonical, queue ?? ""]);
    const [first] = rows;
    if (first === undefined) throw new JobNotFoundError(canonical);
    const found = jobRecordOf(jsonOf(first, "job"));
    const queues = new Set(rows.map((row) => String(jsonOf(row, "job")["queue"])));
    if (queues.size > 1) {
      throw new ConfigError(`job ${canonical}`, [
        { path: "queue", message: `is needed: the id is known in ${[...queues].join(", ")}` },
      ]);
    }
    return found;
  };

  /** The job that an act found impossible, as it is now: the act's own snapshot is older. */
  const refuse = async (
    run: RunStatement,
    found: JobRecord,
    to: JobState,
    advice: (state: JobState) => string,
  ): Promise<never> => {
    const { state } = await find(run, found.id, found.queue);
    throw new InvalidTransitionError(found.id, state, to, advice(state));
  };

  /** At commit, to those who watch it. */
  const tell = (run: RunStatement, id: string): Promise<unknown> =>
    run(statements.tell_watchers, [JSON.stringify([id])]);

  return {
    ...createJobWatching({
      inTransaction: (work) => within(undefined, work),
      schema,
      listener,
      logger,
    }),

    ...createJobExplaining({ within, find, statements }),
    ...createWaitingActs({ within, find, tell, statements, actor: defaultActor, encryption }),
    ...createJobErasure({ within, statements, actor: defaultActor }),

    async get(id, selector = {}) {
      checkOptions("jobs.get", selector, { queue: optional(textRule(63)), tx: anything });
      return within(selector.tx, (run) => find(run, id, selector.queue));
    },

    async list(filter = {}) {
      checkOptions("jobs.list", filter, {
        ...filterRules,
        state: optional(
          (value) =>
            jobStates.includes(value as JobState) || `must be one of ${jobStates.join(", ")}`,
        ),
        search: optional(textRule(255)),
      });
      const { state = "", queue = "", type = "", search = "" } = filter;
      const place = pagePlace("jobs.list", filter.cursor);
      return within(filter.tx, (run) =>
        jobPage({
          limit: filter.limit ?? pageLimitDefault,
          place,
          isFiltered: state !== "" || queue !== "" || type !== "" || search !== "",
          look: (parameters) =>
            run(statements.list_jobs, [...parameters, state, queue, type, search]),
          jobOf: jobSummaryOf,
        }),
      );
    },

    async counts(selector = {}) {
      checkOptions("jobs.counts", selector, { tx: anything });
      const rows = await within(selector.tx, (run) => run(statements.count_jobs, []));
      const total = noCounts();
      const queues = new Map<string, Record<JobState, number>>();
      for (const row of rows) {
        const queue = String(row["queue"]);
        const state = row["state"] as JobState;
        const ofQueue = queues.get(queue) ?? noCounts();
        queues.set(queue, ofQueue);
        ofQueue[state] += Number(row["jobs"]);
        total[state] += Number(row["jobs"]);
      }
      return { total, queues: Object.fromEntries(queues) };
    },

    async cancel(id, act = {}) {
      checkOptions("jobs.cancel", act, actRules);
      return within(act.tx, async (run) => {
        const found = await find(run, id, act.queue);
        const [row] = await run(statements.cancel_job, [
          found.id,
          found.queue,
          act.actor ?? defaultActor,
          act.reason ?? "",
        ]);
        if (row === undefined) {
          return refuse(run, found, "cancelled", () => "A job that has ended stays as it is.");
        }
        await tell(run, found.id);
        return row["state"] === "running" ? "running" : "cancelled";
      });
    },

    async retry(id, act = {}) {
      checkOptions("jobs.retry", act, actRules);
      await within(act.tx, async (run) => {
        const found = await find(run, id, act.queue);
        const rows = await run(statements.retry_job, [
          found.id,
          found.queue,
          act.actor ?? defaultActor,
          act.reason ?? "",
        ]);
        if (rows.length > 0) return void (await tell(run, found.id));
        const now = await find(run, found.id, found.queue);
        if (now.state !== "failed") {
          throw new InvalidTransitionError(
            now.id,
            now.state,
            "retry_waiting",
            retryAdvice(now.state),
          );
        }
        if (now.failures.at(-1)?.failureClass === "unauthentic") {
          throw new InvalidTransitionError(now.id, now.state, "retry_waiting", unauthenticAdvice);
        }
        throw new PayloadUnavailableError(
          `Cannot retry job ${now.id}: its payload is past its retention, or was erased. Enqueue the work again.`,
        );
      });
    },

    async release(id, act = {}) {
      checkOptions("jobs.release", act, actRules);
      return within(act.tx, async (run) => {
        const canonical = canonicalUuid(id);
        if (canonical === undefined) throw new JobNotFoundError(id.slice(0, 80));
        const rows = await run(statements.release_job, [
          canonical,
          act.queue ?? "",
          act.actor ?? defaultActor,
          act.reason ?? "",
        ]);
        if (rows.length > 0) {
          await tell(run, canonical);
          return rows.length;
        }
        const found = await find(run, canonical, act.queue);
        throw new InvalidTransitionError(
          found.id,
          found.state,
          "queued",
          "Nothing of it waits for a time or is parked; only such a message can be released.",
        );
      });
    },

    async listDeadLetters(filter = {}) {
      checkOptions("jobs.listDeadLetters", filter, {
        ...filterRules,
        failureClass: optional(textRule(63)),
        fingerprint: optional(textRule(255)),
      });
      const { limit = pageLimitDefault } = filter;
      const [diedAt = "infinity", id = uuidMax, queue = queueMax] =
        filter.cursor === undefined
          ? []
          : decodeCursor("jobs.listDeadLetters", filter.cursor, [
              /^\d{4,}-\d\d-\d\dT[\d:.]+[+-][\d:]+$/,
              uuidShape,
              queueShape,
            ]);
      const rows = await within(filter.tx, (run) =>
        run(statements.list_dead_letters, [
          filter.queue ?? "",
          filter.type ?? "",
          filter.failureClass ?? "",
          filter.fingerprint ?? "",
          diedAt,
          id,
          queue,
          String(limit),
        ]),
      );
      const letters = rows.map((row) => jsonOf(row, "letter"));
      const last = letters.at(-1);
      return {
        deadLetters: letters.map(deadLetterOf),
        nextCursor:
          last === undefined || letters.length < limit
            ? null
            : encodeCursor([String(last["died_at"]), String(last["id"]), String(last["queue"])]),
      };
    },
  };
}

const unauthenticAdvice =
  "Its message was refused since nobody vouches for it, and is kept as evidence only; enqueue the work itself, if it is wanted.";

function retryAdvice(state: JobState): string {
  if (isTerminal(state)) return "Only a failed job can be retried; enqueue the work again.";
  return "It has not ended; only a failed job can be retried.";
}
