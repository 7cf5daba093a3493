import {
  ConfigError,
  type EventDefinition,
  type InputOf,
  isSealed,
  isTypeName,
  type JobDefinition,
  type KeyRing,
  openPayload,
} from "@waybill/core";
import { type Database, type Row, type SqlExecutor, statementsFor } from "@waybill/postgres";

/** A definition of a job or of an event. */
export type Definition = JobDefinition | EventDefinition;

/** What was enqueued: a job, a published event, or a message with a route of its own. */
export interface EnqueuedJob<Payload = unknown> {
  readonly id: string;
  readonly kind: "job" | "event" | "route";
  /** Job name, or event name. */
  readonly name: string;
  readonly version: number;
  /** The empty text for events and routes. */
  readonly queue: string;
  /** As a worker will receive it: after the round trip through JSON, before the schema. */
  readonly payload: Payload;
  readonly headers: Readonly<Record<string, string>>;
  readonly priority: number;
  readonly orderingKey: string | undefined;
  readonly concurrencyKey: string | undefined;
  readonly correlationId: string | undefined;
  /** Of kind `route`. */
  readonly route: { readonly exchange: string; readonly routingKey: string } | undefined;
  readonly enqueuedAt: Date;
  /** Not before this instant; undefined: at once. */
  readonly runAt: Date | undefined;
  readonly expiresAt: Date | undefined;
  /** Event that is published when the job ends. */
  readonly onTerminal: string | undefined;
}

/** Options of {@link enqueuedJobs}. */
export interface EnqueuedJobsOptions<Tx> {
  /** The data layer that `tx` belongs to. */
  readonly database: Database<Tx>;
  /** @default "waybill" */
  readonly schema?: string | undefined;
  /**
   * `transaction`: what this very transaction enqueued, whatever other tests do at the same time;
   * `all`: everything that it can see, committed jobs included.
   * @default "transaction"
   */
  readonly scope?: "transaction" | "all" | undefined;
  /** The keys of an outbox that encrypts; without them its jobs cannot be read. */
  readonly encryption?: KeyRing | undefined;
}

/** A job with what only draining needs. */
export interface EnqueuedRow {
  readonly job: EnqueuedJob;
  /** The payload's exact text, encrypted where the outbox encrypts. */
  readonly body: string;
  /** Queues whose inbox knows the id. */
  readonly done: readonly string[];
}

const text = (row: Row, key: string): string | undefined => {
  const value = row[key];
  return typeof value === "string" ? value : undefined;
};

const date = (row: Row, key: string): Date | undefined => {
  const value = text(row, key);
  return value === undefined ? undefined : new Date(Number(value));
};

function parse(body: string): unknown {
  try {
    return JSON.parse(body) as unknown;
  } catch {
    // A route may carry any text.
    return body;
  }
}

/** The payload as it was before the outbox encrypted it. */
function opened(body: string, row: Row, keys: KeyRing | undefined): string {
  if (!isSealed(body)) return body;
  const type = text(row, "type") ?? "";
  const identity = { id: text(row, "id") ?? "", type, version: Number(text(row, "version") ?? 1) };
  const result = openPayload(keys, identity, body);
  if (result.issues === undefined) return result.text;
  const why = result.issues.map(({ message }) => message).join("; ");
  throw new ConfigError("the test", [
    { path: "encryption", message: `the payload of "${type}" ${why}` },
  ]);
}

function fromRow(row: Row, keys: KeyRing | undefined): EnqueuedRow {
  const stored = text(row, "payload") ?? "";
  const body = opened(stored, row, keys);
  const exchange = text(row, "exchange");
  const terminal = text(row, "terminal");
  const job: EnqueuedJob = {
    id: text(row, "id") ?? "",
    kind: (text(row, "kind") ?? "job") as EnqueuedJob["kind"],
    name: text(row, "type") ?? "",
    version: Number(text(row, "version") ?? 1),
    queue: text(row, "queue") ?? "",
    payload: parse(body),
    headers: JSON.parse(text(row, "headers") ?? "{}") as Record<string, string>,
    priority: Number(text(row, "priority") ?? 0),
    orderingKey: text(row, "ordering"),
    concurrencyKey: text(row, "concurrency"),
    correlationId: text(row, "correlation"),
    route:
      exchange === undefined ? undefined : { exchange, routingKey: text(row, "routing") ?? "" },
    enqueuedAt: date(row, "enqueued") ?? new Date(0),
    runAt: date(row, "due"),
    expiresAt: date(row, "expires"),
    onTerminal: terminal !== undefined && isTypeName(terminal) ? terminal : undefined,
  };
  return { job, body: stored, done: JSON.parse(text(row, "done") ?? "[]") as string[] };
}

/**
 * All rows of a name (empty: of every name), oldest first.
 *
 * @throws ConfigError for an encrypted payload that the keys do not open
 */
export async function readEnqueued(
  executor: SqlExecutor,
  schema: string | undefined,
  name: string,
  scope: "transaction" | "all",
  keys: KeyRing | undefined,
): Promise<readonly EnqueuedRow[]> {
  const { rows } = await executor.query(statementsFor(schema).list_enqueued.text, [name, scope]);
  return rows.map((row) => fromRow(row, keys));
}

/**
 * What was enqueued and published on this transaction, oldest first. With a definition, that job's
 * or event's alone, with the type of its payload.
 *
 * @throws ConfigError where the outbox encrypts and `encryption` does not open it
 */
export async function enqueuedJobs<Tx, D extends Definition = Definition>(
  tx: Tx,
  options: EnqueuedJobsOptions<Tx> & { readonly job?: D | undefined },
): Promise<readonly EnqueuedJob<InputOf<D["payload"]>>[]> {
  const { database, schema, scope = "transaction", job, encryption } = options;
  const rows = await readEnqueued(
    database.executor(tx),
    schema,
    job?.name ?? "",
    scope,
    encryption,
  );
  // Enqueueing checked the payload against the schema; here it is after the round trip.
  return rows.map((row) => row.job as EnqueuedJob<InputOf<D["payload"]>>);
}
