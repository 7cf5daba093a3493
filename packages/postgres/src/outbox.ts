/**
 * The producer's side: jobs and events become rows in the caller's own transaction.
 *
 * Everything that can be wrong with an enqueue (payload, headers, keys, options) is found before a
 * statement is sent, so that the caller's transaction stays usable after a refusal. Errors of the
 * database pass through unchanged, since only the caller can run its transaction again.
 *
 * What is stored is the value that was given, as JSON text, once its schema accepts it: not the
 * schema's output, which may hold what is not JSON (a Date made from a text). The worker validates
 * the same text again and hands the output to the handler.
 */

import { channel } from "node:diagnostics_channel";
import {
  ConfigError,
  DatabaseUnavailableError,
  type EventDefinition,
  type InputOf,
  type JobDefinition,
  type KeyRing,
  newJobId,
  NotInTransactionError,
  type PayloadInput,
  payloadBytesDefault,
  payloadBytesMax,
  sealPayload,
  type StandardSchema,
  TransactionMisusedError,
  valueText,
} from "@waybill/core";
import {
  booleanRule,
  checkOptions,
  databaseRule,
  integerRule,
  keysRule,
  optional,
  textRule,
} from "./check-options.ts";
import { gotNoConnection, operatingError, queueFullError, sqlStateOf } from "./database-errors.ts";
import {
  checkEncryptable,
  checkEnqueueOptions,
  type EnqueueOptions,
  type EnqueueRow,
  rowOfOptions,
} from "./enqueue-options.ts";
import type { Database } from "./executor.ts";
import { defaultSchema, statementsFor } from "./statements.ts";

/** Options of {@link createOutbox}. */
export interface OutboxOptions<Tx> {
  /** The application's data layer: `pgDatabase(pool)`, `drizzleDatabase(db, sql)`, … */
  readonly database: Database<Tx>;
  /**
   * Schema that holds Waybill's tables.
   * @default "waybill"
   */
  readonly schema?: string | undefined;
  /**
   * Largest payload, in bytes of UTF-8; at most 8 MiB.
   * @default 262144
   */
  readonly maxPayloadBytes?: number | undefined;
  /**
   * Wakes an idle relay at commit, at most once in 20 ms (a NOTIFY in every transaction would halve
   * the commit rate). The relay polls anyway; without the hint a job may wait for its next poll.
   * @default true
   */
  readonly hint?: boolean | undefined;
  /** Name of the application; travels as header `app-id`. At most 128 characters. */
  readonly appId?: string | undefined;
  /**
   * Keys, made by `createKeyRing`, of which the first encrypts every payload; workers need them to open
   * it. Not together with the enqueue options `debounceMs` and `route`.
   * @default payloads are stored as they are
   */
  readonly encryption?: KeyRing | undefined;
}

/** What an enqueue gives back. */
export interface EnqueueReceipt {
  /** The job's id, a UUIDv7; where the idempotency key was taken, the first job's. */
  readonly jobId: string;
  /**
   * True where the idempotency key was taken and no job was added: nothing was written, or, with
   * `debounceMs`, the waiting job got this enqueue's payload.
   */
  readonly deduplicated: boolean;
}

/** One job of {@link Outbox.enqueueMany}. */
export interface EnqueueItem<J extends JobDefinition> {
  readonly payload: PayloadInput<J>;
  readonly options?: EnqueueOptions | undefined;
}

/** An enqueue outside any transaction, said so by `autocommit: true`. */
export type AutocommitOptions = EnqueueOptions & { readonly autocommit: true };

/**
 * Writes jobs and events in the transaction of the application.
 *
 * All methods throw, before a statement is sent: PayloadError, HeadersError, NameError, ConfigError
 * for what was given, NotInTransactionError for something that is not a transaction. With a
 * statement: QueueFullError, after which the transaction is failed unless a savepoint was used;
 * TransactionMisusedError in a transaction that has failed before, SchemaVersionError without Waybill's tables, DatabaseUnavailableError on a read-only server, and every other error of
 * the database unchanged (40001 and 40P01 are the caller's to retry).
 */
export interface Outbox<Tx> {
  /** Enqueues a job; it exists if and only if `tx` commits. */
  enqueue<J extends JobDefinition>(
    tx: Tx,
    job: J,
    payload: PayloadInput<J>,
    options?: EnqueueOptions,
  ): Promise<EnqueueReceipt>;
  enqueue<J extends JobDefinition>(
    connection: object,
    job: J,
    payload: PayloadInput<J>,
    options: AutocommitOptions,
  ): Promise<EnqueueReceipt>;
  /**
   * Enqueues up to 10,000 jobs in one statement; the receipts come in the order of the items.
   *
   * @throws PayloadError as `enqueue`, with paths that begin with `items.<index>`
   */
  enqueueMany<J extends JobDefinition>(
    tx: Tx,
    job: J,
    items: readonly EnqueueItem<J>[],
  ): Promise<readonly EnqueueReceipt[]>;
  /** Publishes an event once, to every subscription there is; it happens if and only if `tx` commits. */
  publish<E extends EventDefinition>(
    tx: Tx,
    event: E,
    payload: InputOf<E["payload"]>,
    options?: EnqueueOptions,
  ): Promise<EnqueueReceipt>;
  publish<E extends EventDefinition>(
    connection: object,
    event: E,
    payload: InputOf<E["payload"]>,
    options: AutocommitOptions,
  ): Promise<EnqueueReceipt>;
}

/** Message on the diagnostics channel `waybill:enqueue:refused`, for each enqueue into a full queue. */
export interface EnqueueRefusal {
  readonly queue: string;
  /** The concurrency key that is full; undefined where the queue is. */
  readonly key: string | undefined;
  /** How many jobs may wait. */
  readonly max: number;
}

const refusedChannel = channel("waybill:enqueue:refused");
const itemsMax = 10_000;
const hintIntervalMs = 20;

/** The error to throw for one of the database's. */
function enqueueError(schema: string, error: unknown, uncertain: string | undefined): unknown {
  if (sqlStateOf(error) === "25P02") {
    return new TransactionMisusedError(
      "Cannot enqueue: an earlier statement of this transaction failed, so PostgreSQL accepts nothing more. " +
        "Roll back and run the transaction again; to go on after an error, use a savepoint.",
      { cause: error },
    );
  }
  const full = queueFullError(error);
  if (full !== undefined) {
    const { queue, key, max } = full;
    if (refusedChannel.hasSubscribers) {
      refusedChannel.publish({ queue, key, max } satisfies EnqueueRefusal);
    }
    return full;
  }
  const known = operatingError("enqueue", schema, error);
  if (uncertain !== undefined && isAmbiguous(error)) {
    return new DatabaseUnavailableError(
      `Cannot tell whether job ${uncertain} was enqueued: the connection ended before PostgreSQL answered. ` +
        `Look for the job by its id, or enqueue again with the same idempotency key.`,
      { cause: error },
    );
  }
  return known ?? error;
}

/** True where a statement without a transaction may have been carried out all the same. */
function isAmbiguous(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state !== undefined) return state.startsWith("08") || state.startsWith("57P0");
  if (gotNoConnection(error)) return false;
  // A mistake in code, ours, the layer's or the caller's, was never sent.
  if (error instanceof TypeError || error instanceof RangeError) return false;
  const code =
    typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
  return !["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH"].includes(code);
}

/**
 * Makes an outbox for the application's data layer.
 *
 * @throws ConfigError for options that are unknown or out of bounds, NameError for the schema
 *
 * @example
 * const outbox = createOutbox({ database: pgDatabase(pool) });
 * await database.transaction(async (tx) => {
 *   await saveOrder(tx, order); // the application's own rows
 *   await outbox.enqueue(tx, sendReceipt, { orderId });
 * });
 */
export function createOutbox<Tx>(options: OutboxOptions<Tx>): Outbox<Tx> {
  checkOptions("createOutbox", options, {
    database: databaseRule,
    schema: () => true,
    maxPayloadBytes: optional(integerRule(1, payloadBytesMax)),
    hint: optional(booleanRule),
    appId: optional(textRule(128)),
    encryption: optional(keysRule),
  });
  const { database, schema = defaultSchema, maxPayloadBytes = payloadBytesDefault } = options;
  const { hint = true, appId, encryption } = options;
  const statement = statementsFor(schema).enqueue_jobs;
  let hintedAt = Number.NEGATIVE_INFINITY;

  const wantsHint = (): boolean => {
    const now = performance.now();
    if (!hint || now - hintedAt < hintIntervalMs) return false;
    hintedAt = now;
    return true;
  };

  const row = async (
    definition: { readonly name: string; readonly payload: StandardSchema },
    payload: unknown,
    enqueueOptions: EnqueueOptions,
    fields: EnqueueRow & { readonly kind: "job" | "event" },
    onTerminal: string | undefined,
    prefix = "",
  ): Promise<EnqueueRow> => {
    checkEnqueueOptions(definition.name, enqueueOptions, fields.kind);
    if (encryption !== undefined) checkEncryptable(definition.name, enqueueOptions);
    const text = await valueText(
      definition.name,
      prefix,
      definition.payload,
      payload,
      maxPayloadBytes,
    );
    const id = newJobId();
    const type = definition.name;
    const version = Number(fields["version"] ?? 1);
    return {
      id,
      type,
      body: encryption === undefined ? text : sealPayload(encryption, { id, type, version }, text),
      ...rowOfOptions(enqueueOptions, { appId, onTerminal }),
      ...(enqueueOptions.route === undefined
        ? fields
        : { ...fields, kind: "route", queue: undefined }),
    };
  };

  const jobRow = (
    job: JobDefinition,
    payload: unknown,
    enqueueOptions: EnqueueOptions,
    prefix?: string,
  ): Promise<EnqueueRow> => {
    const priority = enqueueOptions.priority ?? job.options.priority;
    // Where a message leaves for others, nobody here sees its end.
    const usual = enqueueOptions.route === undefined ? job.onTerminal : undefined;
    const onTerminal =
      enqueueOptions.onTerminal === undefined ? usual : enqueueOptions.onTerminal?.name;
    return row(
      job,
      payload,
      enqueueOptions,
      {
        kind: "job",
        queue: job.options.queue,
        version: job.options.version,
        priority: priority === 0 ? undefined : priority,
      },
      onTerminal,
      prefix,
    );
  };

  /** Refuses what is no transaction; true where the caller wants none. */
  const requireTransaction = (action: string, tx: unknown, autocommit: boolean): void => {
    const isHandle = (typeof tx === "object" && tx !== null) || typeof tx === "function";
    if (!isHandle) throw new NotInTransactionError(action);
    if (!autocommit && database.executor(tx as Tx).inTransaction?.() === false) {
      throw new NotInTransactionError(action);
    }
  };

  const send = async (
    tx: Tx,
    rows: readonly EnqueueRow[],
    autocommit: boolean,
  ): Promise<readonly EnqueueReceipt[]> => {
    try {
      const result = await database
        .executor(tx)
        .query(statement.text, [JSON.stringify(rows), String(wantsHint())]);
      return result.rows.map((receipt) => ({
        jobId: String(receipt["id"]),
        deduplicated: receipt["deduplicated"] === "true",
      }));
    } catch (error) {
      throw enqueueError(schema, error, autocommit ? String(rows[0]?.["id"]) : undefined);
    }
  };

  const one = async (
    tx: Tx,
    enqueued: EnqueueRow,
    autocommit: boolean,
  ): Promise<EnqueueReceipt> => {
    const [receipt] = await send(tx, [enqueued], autocommit);
    if (receipt === undefined) throw new TypeError("waybill.enqueue gave no row back.");
    return receipt;
  };

  return {
    async enqueue(tx: unknown, job: JobDefinition, payload: unknown, given: EnqueueOptions = {}) {
      requireTransaction("enqueue", tx, given.autocommit === true);
      const enqueued = await jobRow(job, payload, given);
      return one(tx as Tx, enqueued, given.autocommit === true);
    },
    async enqueueMany(tx, job, items) {
      requireTransaction("enqueue", tx, false);
      if (!Array.isArray(items) || items.length > itemsMax) {
        throw new ConfigError(`enqueueMany("${job.name}")`, [
          { path: "items", message: `must be an array of at most ${itemsMax} items` },
        ]);
      }
      if (items.length === 0) return [];
      const rows: EnqueueRow[] = [];
      for (const [index, item] of items.entries()) {
        rows.push(await jobRow(job, item.payload, item.options ?? {}, `items.${index}`));
      }
      return send(tx, rows, false);
    },
    async publish(
      tx: unknown,
      event: EventDefinition,
      payload: unknown,
      given: EnqueueOptions = {},
    ) {
      requireTransaction("publish", tx, given.autocommit === true);
      const fields = { kind: "event" as const, priority: given.priority };
      const enqueued = await row(event, payload, given, fields, undefined);
      return one(tx as Tx, enqueued, given.autocommit === true);
    },
  };
}
