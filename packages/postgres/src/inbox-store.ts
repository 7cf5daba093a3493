/**
 * The inbox as the worker uses it: typed functions over the statements that decide everything.
 * Nothing here looks first and acts later; each function is one statement, sent as one batch.
 */

import type { Envelope, Failure, JobState } from "@waybill/core";
import type { SqlConnection, SqlExecutor } from "./executor.ts";
import {
  clean,
  envelopeColumns,
  failureColumns,
  ownedColumns,
  parkColumns,
} from "./inbox-columns.ts";
import { runner, type StoreOptions } from "./run-statement.ts";
import { type Statement, type Statements, statementsFor } from "./statements.ts";

/** Names one job of one queue or subscription. */
export interface JobRef {
  readonly id: string;
  readonly queue: string;
}

/** A delivery to claim. */
export interface ClaimRequest extends JobRef {
  readonly type: string;
  readonly dispatch: number;
  /** The death that the message is the dead letter of; 0 for none. */
  readonly death: number;
  readonly enqueuedAt: Date | null;
  readonly expiresAt: Date | null;
  /** Event to publish when the job ends; null for none. */
  readonly onTerminal: string | null;
  /** The database that published it, in its life then; null: not to be looked at. */
  readonly origin?: string | null | undefined;
}

/** A row of the inbox as the claim left it. */
export interface ClaimedRow extends JobRef {
  readonly state: JobState;
  readonly attempt: number;
  readonly crashes: number;
  readonly dispatch: number;
  readonly deaths: number;
  /** A bigint as text. */
  readonly token: string;
  readonly owner: string | null;
  /** True where this very claim ended the job as cancelled. */
  readonly ended: boolean;
}

/** A job that this worker runs, as its fencing token proves. */
export interface OwnedJob extends JobRef {
  readonly token: string;
  /** True where its delivery was acked before its end, so that a lease protects it. */
  readonly leased?: boolean | undefined;
  /** True of a job of a governed queue, which has a slot to give back. */
  readonly slotted?: boolean | undefined;
}

/** A job whose handler has come back. */
export interface CompletedJob extends OwnedJob {
  /** JSON text; null for none. */
  readonly result: string | null;
  /** How long the handler ran, in milliseconds; of a slotted one the relay learns from it. */
  readonly ranMs?: number | undefined;
}

/** What a handler reports of its progress. */
export interface ProgressReport extends OwnedJob {
  readonly stage: string | null;
  readonly done: number | null;
  readonly total: number | null;
}

/** Somebody asked to cancel a running job. */
export interface CancelRequest extends JobRef {
  readonly actor: string | null;
  readonly reason: string | null;
}

/** What others ask of a worker. */
export interface WorkerRequests {
  /** `drain`: take no more jobs; `restart`: finish and end. */
  readonly stop: "drain" | "restart" | null;
  readonly stopper: string | null;
  /** True where somebody watches jobs, so that changes are to be told. */
  readonly watched: boolean;
  readonly cancels: readonly CancelRequest[];
  /** Jobs that another attempt owns now. */
  readonly lost: readonly JobRef[];
}

/** A failed attempt and what follows. */
export interface FailureRecord extends OwnedJob {
  readonly failure: Failure;
  /** Milliseconds until the next attempt; undefined: none, dead-letter. */
  readonly retryDelayMs: number | undefined;
  /** False where no handler ran, so that no attempt was spent. */
  readonly attempted: boolean;
  /** True where its ordering key waits for its retry. */
  readonly blocks?: boolean | undefined;
  readonly envelope: Envelope;
}

/** What a recorded failure made of the job. */
export interface FailureOutcome extends JobRef {
  readonly state: "retry_waiting" | "failed" | "cancelled";
  readonly attempt: number;
  readonly deaths: number;
}

/** A message to put aside. */
export interface ParkRequest {
  readonly envelope: Envelope;
  readonly reason: "held" | "no_handler" | "delay" | "ungoverned" | "orphan";
  readonly detail: string;
  /** Of `held`: the worker that runs the job. */
  readonly owner: string | null;
  /** Milliseconds after the owner's lease, or from now. */
  readonly delayMs: number;
  /** Of `no_handler`: milliseconds that it may be parked in all. */
  readonly windowMs: number | null;
  /** Of `no_handler`: when it was first parked; null: now. */
  readonly parkedAt: Date | null;
  /** Of `delay`: when it is to run. */
  readonly fireAt: Date | null;
}

/** A delivery with a slot that runs nothing. */
export interface IdleDelivery extends JobRef {
  readonly dispatch: number;
  /** True where its message was parked; false where there is nothing to run any more. */
  readonly parked: boolean;
}

/** What became of a job, read after a statement that changed nothing or got no answer. */
export interface JobOutcome extends JobRef {
  readonly state: JobState;
  readonly token: string;
}

/** See {@link createInboxStore}. */
export interface InboxStore {
  /** Claims deliveries, no (id, queue) twice; one row back for each, in any order. */
  claim(owner: string, requests: readonly ClaimRequest[]): Promise<readonly ClaimedRow[]>;
  /** Ends jobs as succeeded; those that are missing in the answer are not ours any more. */
  complete(jobs: readonly CompletedJob[]): Promise<readonly JobRef[]>;
  /** Records failures; those that are missing in the answer are not ours any more. */
  fail(failures: readonly FailureRecord[]): Promise<readonly FailureOutcome[]>;
  /** Hands jobs back without spending an attempt. */
  release(jobs: readonly (OwnedJob & { readonly dispatch: number })[]): Promise<readonly JobRef[]>;
  /** Lets jobs go on without their deliveries; those that are missing in the answer are not ours any more. */
  hold(jobs: readonly (OwnedJob & { readonly envelope: Envelope })[]): Promise<readonly JobRef[]>;
  /** Puts claimed jobs of governed queues back to the backlog, before they have started. */
  putBack(jobs: readonly OwnedJob[]): Promise<readonly JobRef[]>;
  /** Gives back slots of deliveries that run nothing. */
  freeSlots(deliveries: readonly IdleDelivery[]): Promise<void>;
  /** Ends jobs as cancelled; those that are missing in the answer are not ours any more. */
  cancel(jobs: readonly OwnedJob[]): Promise<readonly JobRef[]>;
  /** What others ask of this worker, and of the jobs that it runs. */
  requests(workerId: string, running: readonly OwnedJob[]): Promise<WorkerRequests>;
  /** The newest checkpoint of a job as JSON text; undefined where there is none. */
  checkpoint(job: JobRef): Promise<string | undefined>;
  /** Writes progress, no job twice; jobs that are not ours any more are left out. */
  saveProgress(reports: readonly ProgressReport[]): Promise<readonly JobRef[]>;
  /** Tells those who watch one of these jobs that it has changed. */
  tell(jobIds: readonly string[]): Promise<void>;
  /** Parks messages; those that are missing in the answer were parked longer than their window. */
  park(
    requests: readonly ParkRequest[],
  ): Promise<readonly (JobRef & { readonly dispatch: number })[]>;
  outcomes(jobs: readonly JobRef[]): Promise<readonly JobOutcome[]>;
  /** Ends the presence of a worker: others may take over what it ran. */
  retire(workerId: string): Promise<void>;
}

/**
 * The inbox over one of Waybill's own connections. Errors of the driver pass through.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createInboxStore(
  connection: SqlConnection,
  options: StoreOptions = {},
): InboxStore {
  const statements: Statements = statementsFor(options.schema);
  const send = runner(connection, options);
  const run = async <T>(statement: Statement, values: readonly unknown[]): Promise<readonly T[]> =>
    (await send<T>(statement, values)).rows;
  return {
    claim: (owner, requests) =>
      run<ClaimedRow>(statements.claim_deliveries, [
        JSON.stringify(
          requests.map((request) => ({
            id: request.id,
            queue: request.queue,
            type: clean(request.type),
            dispatch: request.dispatch,
            death: request.death,
            enqueued_at: request.enqueuedAt,
            expires_at: request.expiresAt,
            on_terminal: request.onTerminal,
            origin: request.origin ?? null,
          })),
        ),
        owner,
      ]),
    complete: (jobs) =>
      run<JobRef>(statements.complete_jobs, [
        JSON.stringify(
          jobs.map((job) => ({
            ...ownedColumns(job),
            result: job.result,
            ran: job.slotted === true ? job.ranMs : undefined,
          })),
        ),
      ]),
    fail: (failures) =>
      run<FailureOutcome>(statements.fail_attempts, [JSON.stringify(failures.map(failureColumns))]),
    release: (jobs) =>
      run<JobRef>(statements.release_jobs, [
        JSON.stringify(jobs.map((job) => ({ ...ownedColumns(job), dispatch: job.dispatch }))),
      ]),
    hold: (jobs) =>
      run<JobRef>(statements.hold_jobs, [
        JSON.stringify(
          jobs.map((job) => ({ ...envelopeColumns(job.envelope), ...ownedColumns(job) })),
        ),
      ]),
    putBack: (jobs) =>
      run<JobRef>(statements.return_jobs, [JSON.stringify(jobs.map(ownedColumns))]),
    async freeSlots(deliveries) {
      await run(statements.free_slots, [JSON.stringify(deliveries)]);
    },
    cancel: (jobs) =>
      run<JobRef>(statements.cancel_attempts, [JSON.stringify(jobs.map(ownedColumns))]),
    async requests(workerId, running) {
      const [row] = await run<
        Pick<WorkerRequests, "stop" | "stopper" | "watched"> &
          Readonly<Record<"cancels" | "lost", string>>
      >(statements.read_requests, [
        workerId,
        JSON.stringify(running.map(({ id, queue, token }) => ({ id, queue, token }))),
      ]);
      return {
        stop: row?.stop ?? null,
        stopper: row?.stopper ?? null,
        watched: row?.watched ?? false,
        cancels: JSON.parse(row?.cancels ?? "[]") as readonly CancelRequest[],
        lost: JSON.parse(row?.lost ?? "[]") as readonly JobRef[],
      };
    },
    checkpoint: async ({ id, queue }) =>
      (await run<{ checkpoint: string }>(statements.read_checkpoint, [id, queue]))[0]?.checkpoint,
    saveProgress: (reports) =>
      run<JobRef>(statements.save_progress, [
        JSON.stringify(
          reports.map((report) => ({
            ...ownedColumns(report),
            stage: report.stage,
            done: report.done,
            total: report.total,
          })),
        ),
      ]),
    async tell(jobIds) {
      await run(statements.tell_watchers, [JSON.stringify(jobIds)]);
    },
    park: (requests) => run(statements.park_messages, [JSON.stringify(requests.map(parkColumns))]),
    outcomes: (jobs) =>
      run<JobOutcome>(statements.read_outcomes, [
        JSON.stringify(jobs.map(({ id, queue }) => ({ id, queue }))),
      ]),
    async retire(workerId) {
      await run(statements.retire_worker, [workerId]);
    },
  };
}

/** What a job's own transaction says about its lease; see {@link createJobFence}. */
export interface JobFence {
  /** Ends the job as succeeded in this transaction; false: not ours any more, roll back. */
  complete(executor: SqlExecutor, job: OwnedJob, result: string | null): Promise<boolean>;
  /** Keeps the job ours until this transaction ends; false: not ours any more, roll back. */
  guard(executor: SqlExecutor, job: OwnedJob): Promise<boolean>;
  /** Saves a checkpoint in this transaction; false: not ours any more, roll back. */
  saveCheckpoint(executor: SqlExecutor, job: OwnedJob, checkpoint: string): Promise<boolean>;
}

/**
 * The statements that run on the application's own transaction.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createJobFence(schema?: string): JobFence {
  const statements = statementsFor(schema);
  return {
    async complete(executor, { id, queue, token, leased, slotted }, result) {
      const { rows } = await executor.query(statements.complete_job.text, [
        id,
        queue,
        token,
        result ?? "",
        `${leased === true ? "leased" : ""} ${slotted === true ? "slotted" : ""}`,
      ]);
      return rows.length > 0;
    },
    async guard(executor, { id, queue, token }) {
      const { rows } = await executor.query(statements.guard_lease.text, [id, queue, token]);
      return rows.length > 0;
    },
    async saveCheckpoint(executor, { id, queue, token }, checkpoint) {
      const { rows } = await executor.query(statements.save_checkpoint.text, [
        id,
        queue,
        token,
        checkpoint,
      ]);
      return rows.length > 0;
    },
  };
}
