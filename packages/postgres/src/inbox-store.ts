/**
 * The inbox as the worker uses it: typed functions over the statements that decide everything.
 * Nothing here looks first and acts later; each function is one statement, sent as one batch.
 */

import { type Envelope, type Failure, type JobState, waybillHeaders } from "@waybill/core";
import type { SqlConnection, SqlExecutor } from "./executor.ts";
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
}

/** A failed attempt and what follows. */
export interface FailureRecord extends OwnedJob {
  readonly failure: Failure;
  /** Milliseconds until the next attempt; undefined: none, dead-letter. */
  readonly retryDelayMs: number | undefined;
  /** False where no handler ran, so that no attempt was spent. */
  readonly attempted: boolean;
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
  readonly reason: "held" | "no_handler" | "delay";
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

/** What became of a job, read after a statement that changed nothing or got no answer. */
export interface JobOutcome extends JobRef {
  readonly state: JobState;
  readonly token: string;
}

/** A worker's presence row. */
export interface WorkerRegistration {
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly queues: readonly string[];
  /** A bigint as text; null where a session lock is of no use. */
  readonly lockKey: string | null;
  readonly leaseMs: number;
}

/** See {@link createInboxStore}. */
export interface InboxStore {
  /** Claims deliveries, no (id, queue) twice; one row back for each, in any order. */
  claim(owner: string, requests: readonly ClaimRequest[]): Promise<readonly ClaimedRow[]>;
  /** Ends jobs as succeeded; those that are missing in the answer are not ours any more. */
  complete(
    jobs: readonly (OwnedJob & { readonly result: string | null })[],
  ): Promise<readonly JobRef[]>;
  /** Records failures; those that are missing in the answer are not ours any more. */
  fail(failures: readonly FailureRecord[]): Promise<readonly FailureOutcome[]>;
  /** Hands jobs back without spending an attempt. */
  release(jobs: readonly (OwnedJob & { readonly dispatch: number })[]): Promise<readonly JobRef[]>;
  /** Parks messages; those that are missing in the answer were parked longer than their window. */
  park(
    requests: readonly ParkRequest[],
  ): Promise<readonly (JobRef & { readonly dispatch: number })[]>;
  outcomes(jobs: readonly JobRef[]): Promise<readonly JobOutcome[]>;
  register(worker: WorkerRegistration): Promise<void>;
  /** Renews the lease; false: it was over, others may run what this worker ran. */
  renew(workerId: string, running: number, leaseMs: number): Promise<boolean>;
  retire(workerId: string): Promise<void>;
  /** Takes the session lock; false: an earlier connection still holds it. */
  lock(key: string): Promise<boolean>;
}

/** Options of {@link createInboxStore}. */
export interface InboxStoreOptions {
  /** @default "waybill" */
  readonly schema?: string | undefined;
  /**
   * Named prepared statements; not behind a transaction pooler.
   * @default true
   */
  readonly prepare?: boolean | undefined;
}

// PostgreSQL stores no NUL and refuses lone surrogates; a foreign message may hold both anywhere.
const clean = (text: string): string => text.replaceAll("\u0000", "\ufffd").toWellFormed();
const cleanOrNull = (text: string | null): string | null => (text === null ? null : clean(text));

/** The payload as it can be stored: bytes that are no storable text travel as base64. */
function payloadOf(envelope: Envelope): { payload: string; payload_base64: boolean } {
  const { payload, payloadBase64 } = envelope;
  if (!payloadBase64 && (payload.includes("\u0000") || !payload.isWellFormed())) {
    return { payload: Buffer.from(payload, "utf8").toString("base64"), payload_base64: true };
  }
  return { payload, payload_base64: payloadBase64 };
}

function envelopeColumns(envelope: Envelope): Record<string, unknown> {
  const headers = Object.entries(envelope.headers).map(([key, value]) => [
    clean(key),
    clean(value),
  ]);
  // Goes round with the message: a later claim may be the one that makes the inbox's row.
  if (envelope.onTerminal !== null) headers.push([waybillHeaders.onTerminal, envelope.onTerminal]);
  return {
    ...payloadOf(envelope),
    type: clean(envelope.type),
    version: envelope.version,
    headers: headers.length === 0 ? null : Object.fromEntries(headers),
    priority: envelope.priority,
    ordering_key: cleanOrNull(envelope.orderingKey),
    correlation_id: cleanOrNull(envelope.correlationId),
    expires_at: envelope.expiresAt,
    enqueued_at: envelope.enqueuedAt,
  };
}

function failureColumns(record: FailureRecord): Record<string, unknown> {
  const { id, queue, token, failure } = record;
  return {
    ...envelopeColumns(record.envelope),
    id,
    queue,
    token,
    terminal: record.retryDelayMs === undefined,
    unspent: !record.attempted,
    delay_ms: record.retryDelayMs ?? 0,
    failure_class: failure.failureClass,
    message: failure.message,
    stack: failure.stack ?? null,
    fingerprint: failure.fingerprint,
  };
}

function parkColumns(request: ParkRequest): Record<string, unknown> {
  const { envelope } = request;
  const columns = envelopeColumns(envelope);
  // A dead letter that was moved back keeps its marker, or it would come back as a duplicate.
  const headers =
    envelope.death > 0
      ? { ...(columns["headers"] as object | null), [waybillHeaders.death]: String(envelope.death) }
      : columns["headers"];
  return {
    ...columns,
    headers,
    id: envelope.id,
    queue: envelope.queue,
    dispatch: envelope.dispatch,
    reason: request.reason,
    detail: clean(request.detail),
    owner: request.owner,
    delay_ms: request.delayMs,
    window_ms: request.windowMs,
    parked_at: request.parkedAt,
    fire_at: request.fireAt,
  };
}

/**
 * The inbox over one of Waybill's own connections. Errors of the driver pass through.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createInboxStore(
  connection: SqlConnection,
  options: InboxStoreOptions = {},
): InboxStore {
  const statements: Statements = statementsFor(options.schema);
  const prepare = options.prepare ?? true;
  const run = async <T>(statement: Statement, values: unknown[]): Promise<readonly T[]> => {
    const { name, text } = statement;
    const { rows } = await connection.query(prepare ? { name, text, values } : { text, values });
    return rows as readonly T[];
  };
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
          })),
        ),
        owner,
      ]),
    complete: (jobs) =>
      run<JobRef>(statements.complete_jobs, [
        JSON.stringify(jobs.map(({ id, queue, token, result }) => ({ id, queue, token, result }))),
      ]),
    fail: (failures) =>
      run<FailureOutcome>(statements.fail_attempts, [JSON.stringify(failures.map(failureColumns))]),
    release: (jobs) =>
      run<JobRef>(statements.release_jobs, [
        JSON.stringify(
          jobs.map(({ id, queue, token, dispatch }) => ({ id, queue, token, dispatch })),
        ),
      ]),
    park: (requests) => run(statements.park_messages, [JSON.stringify(requests.map(parkColumns))]),
    outcomes: (jobs) =>
      run<JobOutcome>(statements.read_outcomes, [
        JSON.stringify(jobs.map(({ id, queue }) => ({ id, queue }))),
      ]),
    async register(worker) {
      await run(statements.register_worker, [
        worker.id,
        worker.name,
        worker.host,
        worker.pid,
        worker.version,
        JSON.stringify(worker.queues),
        worker.lockKey,
        worker.leaseMs,
      ]);
    },
    renew: async (workerId, running, leaseMs) =>
      (await run(statements.renew_worker, [workerId, running, leaseMs])).length > 0,
    async retire(workerId) {
      await run(statements.retire_worker, [workerId]);
    },
    lock: async (key) =>
      (await run<{ locked: boolean }>(statements.lock_worker, [key]))[0]?.locked === true,
  };
}

/** What a job's own transaction says about its lease; see {@link createJobFence}. */
export interface JobFence {
  /** Ends the job as succeeded in this transaction; false: not ours any more, roll back. */
  complete(executor: SqlExecutor, job: OwnedJob, result: string | null): Promise<boolean>;
  /** Keeps the job ours until this transaction ends; false: not ours any more, roll back. */
  guard(executor: SqlExecutor, job: OwnedJob): Promise<boolean>;
}

/**
 * The statements that run on the application's own transaction.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createJobFence(schema?: string): JobFence {
  const statements = statementsFor(schema);
  return {
    async complete(executor, { id, queue, token }, result) {
      const { rows } = await executor.query(statements.complete_job.text, [
        id,
        queue,
        token,
        result ?? "",
      ]);
      return rows.length > 0;
    },
    async guard(executor, { id, queue, token }) {
      const { rows } = await executor.query(statements.guard_lease.text, [id, queue, token]);
      return rows.length > 0;
    },
  };
}
