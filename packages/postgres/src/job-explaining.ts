import { JobNotFoundError } from "@waybill/core";
import { type BlockedKey, blockedKeyOf } from "./blocked-key.ts";
import { anything, checkOptions, integerRule, optional, textRule } from "./check-options.ts";
import { explainOf, type JobExplanation } from "./explain-job.ts";
import { jobFactsOf } from "./job-facts.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobSelector } from "./jobs-options.ts";
import type { JsonRow } from "./json-row.ts";
import type { Statements } from "./statements.ts";
import type { RunStatement, Transactions } from "./transactions.ts";

/** Filters of `jobs.blocked`. */
export interface BlockedFilter<Tx> {
  readonly queue?: string | undefined;
  /**
   * Keys at most; at most 1,000.
   * @default 100
   */
  readonly limit?: number | undefined;
  readonly tx?: Tx | undefined;
}

/** What tells why jobs do not run. */
export interface JobExplaining<Tx> {
  /**
   * The gates that a job has to pass, in their order, and the first that holds it.
   *
   * @throws JobNotFoundError where there is none: not committed, or past its retention; ConfigError
   *   where the id is one of several queues and none was given
   */
  explain(id: string, selector?: JobSelector<Tx>): Promise<JobExplanation>;
  /**
   * Ordering keys of governed queues whose first job keeps others waiting, or waits for its retry; the
   * longest dispatched first. Cancelling that job, or releasing its retry, frees its key.
   */
  blocked(filter?: BlockedFilter<Tx>): Promise<readonly BlockedKey[]>;
}

/** What {@link createJobExplaining} is made of. */
export interface JobExplainingOptions<Tx> {
  readonly within: Transactions<Tx>;
  readonly find: (run: RunStatement, id: string, queue: string | undefined) => Promise<JobRecord>;
  readonly statements: Statements;
}

const limitDefault = 100;

/** Makes `explain` and `blocked`. */
export function createJobExplaining<Tx>(options: JobExplainingOptions<Tx>): JobExplaining<Tx> {
  const { within, find, statements } = options;
  return {
    async explain(id, selector = {}) {
      checkOptions("jobs.explain", selector, { queue: optional(textRule(63)), tx: anything });
      return within(selector.tx, async (run) => {
        const found = await find(run, id, selector.queue);
        const [row] = await run(statements.explain_job, [found.id, found.queue]);
        if (row === undefined) throw new JobNotFoundError(found.id);
        return explainOf(jobFactsOf(JSON.parse(String(row["facts"])) as JsonRow));
      });
    },

    async blocked(filter = {}) {
      checkOptions("jobs.blocked", filter, {
        queue: optional(textRule(63)),
        limit: optional(integerRule(1, 1_000)),
        tx: anything,
      });
      const { queue = "", limit = limitDefault } = filter;
      const rows = await within(filter.tx, (run) =>
        run(statements.list_blocked_keys, [queue, String(limit)]),
      );
      return rows.map((row) => blockedKeyOf(JSON.parse(String(row["blocked"])) as JsonRow));
    },
  };
}
