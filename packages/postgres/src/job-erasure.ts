/**
 * Erasure: what ended jobs hold goes, that they were there stays. The function waybill.erase_job does it
 * as a whole, with the rights of the schema's owner: whoever may erase needs no right to rewrite history.
 */

import {
  canonicalUuid,
  InvalidTransitionError,
  JobNotFoundError,
  type JobState,
} from "@waybill/core";
import {
  actOptionRules,
  anything,
  checkOptions,
  instantRule,
  integerRule,
  optional,
  textRule,
} from "./check-options.ts";
import { jobPage, pageLimitDefault, pagePlace } from "./job-pages.ts";
import type { JsonRow } from "./json-row.ts";
import type { OperatorActOptions } from "./operator.ts";
import type { Statements } from "./statements.ts";
import type { Transactions } from "./transactions.ts";

/** Filters of `jobs.listErasable`. */
export interface ErasableFilter<Tx> {
  readonly queue?: string | undefined;
  readonly type?: string | undefined;
  /** Jobs of this concurrency key, such as a tenant; found as long as the job's envelope is kept. */
  readonly concurrencyKey?: string | undefined;
  /** Jobs with this correlation id; found as long as the job's envelope is kept. */
  readonly correlationId?: string | undefined;
  /** Jobs that ended before this instant. */
  readonly finishedBefore?: Date | undefined;
  /**
   * Jobs of a page; at most 200.
   * @default 50
   */
  readonly limit?: number | undefined;
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined;
  readonly tx?: Tx | undefined;
}

/** A job that has ended and was not erased yet. */
export interface ErasableJob {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly state: JobState;
  readonly finishedAt: Date;
}

/** A page of `jobs.listErasable`. */
export interface ErasablePage {
  readonly jobs: readonly ErasableJob[];
  /** Where the next page begins; null on the last one. */
  readonly nextCursor: string | null;
}

/** Erasing what ended jobs hold. */
export interface JobErasure<Tx> {
  /**
   * Erases what an ended job holds, in all queues that know its id: payload, headers, result, checkpoints,
   * progress, texts of its failures, reasons of acts on it, correlation id and ordering key; and the event
   * that told its end. Id, type, queue, state, times and counts stay, and the audit log says who erased it.
   * It cannot be retried any more. Repeating it changes nothing that matters.
   *
   * Not reached: messages that lie in the broker's dead-letter queues, idempotency keys until their time is
   * over, and whatever the application wrote itself.
   *
   * @throws InvalidTransitionError while the job, or a delivery of the event of its end, has not ended;
   *   JobNotFoundError where there is none; ConfigError for options that are unknown or out of bounds
   */
  erase(id: string, act?: OperatorActOptions<Tx>): Promise<void>;
  /**
   * A page of the jobs that have ended and were not erased yet, newest first by id. A call looks at 100,000
   * jobs at most, so a page may hold fewer jobs than its limit, even none, and still have a next one.
   *
   * @throws ConfigError for a filter that is unknown or out of bounds
   */
  listErasable(filter?: ErasableFilter<Tx>): Promise<ErasablePage>;
}

/** What {@link createJobErasure} is made of. */
export interface JobErasureOptions<Tx> {
  readonly within: Transactions<Tx>;
  readonly statements: Statements;
  readonly actor: string;
}

const filterRules = {
  queue: optional(textRule(63)),
  type: optional(textRule(255)),
  concurrencyKey: optional(textRule(255)),
  correlationId: optional(textRule(255)),
  finishedBefore: optional(instantRule),
  limit: optional(integerRule(1, 200)),
  cursor: anything,
  tx: anything,
};

const erasableOf = (row: JsonRow): ErasableJob => ({
  id: String(row["id"]),
  queue: String(row["queue"]),
  type: String(row["type"]),
  state: row["state"] as JobState,
  finishedAt: new Date(String(row["finished_at"])),
});

/** Makes `erase` and `listErasable`. */
export function createJobErasure<Tx>(options: JobErasureOptions<Tx>): JobErasure<Tx> {
  const { within, statements, actor } = options;

  return {
    async erase(id, act = {}) {
      checkOptions("jobs.erase", act, actOptionRules);
      const canonical = canonicalUuid(id);
      if (canonical === undefined) throw new JobNotFoundError(id.slice(0, 80));
      await within(act.tx, async (run) => {
        const [row] = await run(statements.erase_job, [
          canonical,
          act.actor ?? actor,
          act.reason ?? "",
        ]);
        switch (row?.["outcome"]) {
          case "erased":
            return;
          case "live":
            throw new InvalidTransitionError(
              canonical,
              "unfinished",
              "erased",
              "It, or a delivery of the event that told its end, is still to run. Cancel it, or wait for its end.",
            );
          default:
            throw new JobNotFoundError(canonical);
        }
      });
    },

    async listErasable(filter = {}) {
      checkOptions("jobs.listErasable", filter, filterRules);
      const { queue = "", type = "", concurrencyKey = "", correlationId = "" } = filter;
      const before = filter.finishedBefore?.toISOString() ?? "infinity";
      const place = pagePlace("jobs.listErasable", filter.cursor);
      return within(filter.tx, (run) =>
        jobPage({
          limit: filter.limit ?? pageLimitDefault,
          place,
          isFiltered: true,
          look: (parameters) =>
            run(statements.list_erasable, [
              ...parameters,
              queue,
              type,
              concurrencyKey,
              correlationId,
              before,
            ]),
          jobOf: erasableOf,
        }),
      );
    },
  };
}
