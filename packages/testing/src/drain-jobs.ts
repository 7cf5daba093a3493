import { decideFailure, type Envelope, type Failure, failureOf } from "@waybill/core";
import {
  createInboxStore,
  type Database,
  type SqlExecutor,
  statementsFor,
} from "@waybill/postgres";
import { rehearsalOf, type Rehearsal, type Worker } from "@waybill/worker";
import { type EnqueuedJob, type EnqueuedRow, readEnqueued } from "./enqueued-jobs.ts";
import { inlineTransaction } from "./inline-transaction.ts";

/** Options of {@link drainJobs}. */
export interface DrainJobsOptions<Tx> {
  /**
   * The test's transaction: only what it enqueued is run, inside it, and gone with its rollback.
   * Without it everything that was committed is run, each job in transactions of its own.
   */
  readonly tx?: Tx | undefined;
  /**
   * `throw`: the first failure of a handler ends the draining with its error; the job stays queued.
   * `retry`: attempts follow each other without waiting, as often as the policy allows, and a job
   * that is out of them ends as failed.
   * @default "throw"
   */
  readonly onFailure?: "throw" | "retry" | undefined;
  /** Runs delayed jobs as well, as if their time had come. @default false */
  readonly delayed?: boolean | undefined;
  /** Most jobs that one call runs, so that jobs that enqueue themselves end. @default 1000 */
  readonly maxJobs?: number | undefined;
}

/** A job that {@link drainJobs} ran to its end. */
export interface DrainedJob extends EnqueuedJob {
  /** Queue, or the event's subscription. */
  readonly queue: string;
  readonly attempts: number;
  /** Of a job that failed: what its last attempt threw. */
  readonly error?: unknown;
}

/** What {@link drainJobs} did, in the order in which it was done. */
export interface DrainResult {
  readonly succeeded: readonly DrainedJob[];
  readonly failed: readonly DrainedJob[];
  /** Jobs that this worker has no handler for, and routes; they stay where they are. */
  readonly unhandled: readonly EnqueuedJob[];
}

interface Runnable {
  readonly row: EnqueuedRow;
  /** Queue or subscription. */
  readonly queue: string;
}

function envelopeOf({ row, queue }: Runnable): Envelope {
  const { job } = row;
  return {
    id: job.id,
    idSource: "given",
    queue,
    type: job.name,
    version: job.version,
    dispatch: 1,
    death: 0,
    priority: job.priority,
    orderingKey: job.orderingKey ?? null,
    correlationId: job.correlationId ?? null,
    enqueuedAt: job.enqueuedAt,
    expiresAt: job.expiresAt ?? null,
    runAt: null,
    onTerminal: job.onTerminal ?? null,
    concurrencyKey: job.concurrencyKey ?? null,
    slot: null,
    origin: null,
    headers: job.headers,
    payload: row.body,
    payloadBase64: false,
  };
}

class Drain<Tx> {
  readonly #rehearsal: Rehearsal<Tx>;
  readonly #options: DrainJobsOptions<Tx>;
  readonly #transaction: Database<Tx>["transaction"];
  readonly #scope: "transaction" | "all";
  readonly #succeeded: DrainedJob[] = [];
  readonly #failed: DrainedJob[] = [];

  constructor(rehearsal: Rehearsal<Tx>, options: DrainJobsOptions<Tx>) {
    this.#rehearsal = rehearsal;
    this.#options = options;
    const { database } = rehearsal;
    const { tx } = options;
    this.#scope = tx === undefined ? "all" : "transaction";
    this.#transaction =
      tx === undefined ? (work) => database.transaction(work) : inlineTransaction(database, tx);
  }

  async run(): Promise<DrainResult> {
    const maxJobs = this.#options.maxJobs ?? 1_000;
    for (;;) {
      const { runnable, unhandled } = this.#sort(await this.#read());
      if (runnable.length === 0) {
        return { succeeded: this.#succeeded, failed: this.#failed, unhandled };
      }
      for (const next of runnable) {
        const ran = [...this.#succeeded, ...this.#failed];
        if (ran.length >= maxJobs) {
          const last = ran.slice(-5).map(({ name }) => name);
          throw new Error(
            `Cannot drain: ${maxJobs} jobs were run and more wait (the last: ${last.join(", ")}). ` +
              `A handler that enqueues its own job never ends; raise maxJobs if it is meant so.`,
          );
        }
        await this.#runJob(next);
      }
    }
  }

  #read(): Promise<readonly EnqueuedRow[]> {
    const { database, schema, encryption } = this.#rehearsal;
    return this.#transaction((tx) =>
      readEnqueued(database.executor(tx), schema, "", this.#scope, encryption),
    );
  }

  #sort(rows: readonly EnqueuedRow[]): { runnable: Runnable[]; unhandled: EnqueuedJob[] } {
    const runnable: Runnable[] = [];
    const unhandled: EnqueuedJob[] = [];
    for (const row of rows) {
      if (row.job.runAt !== undefined && this.#options.delayed !== true) continue;
      const queues =
        row.job.kind === "event" ? this.#rehearsal.subscriptionsOf(row.job.name) : [row.job.queue];
      const handled = queues.filter(
        (queue) => this.#rehearsal.policyOf(queue, row.job.name, row.job.version) !== undefined,
      );
      if (row.job.kind === "route" || handled.length === 0) {
        if (row.done.length === 0) unhandled.push(row.job);
        continue;
      }
      for (const queue of handled) if (!row.done.includes(queue)) runnable.push({ row, queue });
    }
    return { runnable, unhandled };
  }

  async #runJob(next: Runnable): Promise<void> {
    const { row, queue } = next;
    const policy = this.#rehearsal.policyOf(queue, row.job.name, row.job.version);
    if (policy === undefined) return;
    for (let attempt = 1; ; attempt += 1) {
      const begin = (tx: Tx): Promise<string> => this.#begin(this.#executor(tx), next, attempt);
      const outcome = await this.#rehearsal.run({
        envelope: envelopeOf(next),
        attempt,
        transaction: this.#transaction,
        begin,
      });
      if (outcome.succeeded) {
        this.#succeeded.push({ ...row.job, queue, attempts: attempt });
        return;
      }
      if (this.#options.onFailure !== "retry") throw outcome.error;
      const failure = failureOf(outcome.error);
      if (decideFailure(failure, attempt, policy, () => 0).next === "retry") continue;
      await this.#transaction(async (tx) => this.#bury(tx, next, await begin(tx), failure));
      this.#failed.push({ ...row.job, queue, attempts: attempt, error: outcome.error });
      return;
    }
  }

  #executor(tx: Tx): SqlExecutor {
    return this.#rehearsal.database.executor(tx);
  }

  async #begin(executor: SqlExecutor, { row, queue }: Runnable, attempt: number): Promise<string> {
    const { rows } = await executor.query(statementsFor(this.#rehearsal.schema).start_inline.text, [
      row.job.id,
      queue,
      row.job.name,
      String(attempt),
      String(row.job.enqueuedAt.getTime()),
      row.job.onTerminal ?? "",
    ]);
    return String(rows[0]?.["token"]);
  }

  /** Ends the job as the worker does: failed, with its failure and its dead letter. */
  async #bury(tx: Tx, next: Runnable, token: string, failure: Failure): Promise<void> {
    const executor = this.#executor(tx);
    const store = createInboxStore(
      {
        query: async ({ text, values }) => {
          const { rows } = await executor.query(text, (values ?? []) as string[]);
          return { rows: rows as Record<string, unknown>[], rowCount: rows.length };
        },
      },
      { schema: this.#rehearsal.schema, prepare: false },
    );
    await store.fail([
      {
        id: next.row.job.id,
        queue: next.queue,
        token,
        failure,
        retryDelayMs: undefined,
        attempted: true,
        envelope: envelopeOf(next),
      },
    ]);
  }
}

/**
 * Runs everything that was enqueued through the worker's handlers, here and now, without relay and
 * broker: follow-up jobs and events included, until nothing is left. What ran is recorded as by a
 * worker, so that a second call, a worker or `jobs.get` finds it ended.
 *
 * @throws what a handler throws, unless `onFailure` is "retry"
 * @throws Error after `maxJobs`
 * @throws ConfigError for an encrypted payload that the worker's `encryption` does not open
 *
 * @example
 * const { succeeded } = await drainJobs(worker, { tx });
 */
export async function drainJobs<Tx>(
  worker: Worker<Tx>,
  options: DrainJobsOptions<Tx> = {},
): Promise<DrainResult> {
  return await new Drain<Tx>(rehearsalOf<Tx>(worker), options).run();
}
