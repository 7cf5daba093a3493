import { randomBytes } from "node:crypto";
import { createKeyRing, defineJob, type KeyRing } from "@waybill/core";
import { createOutbox, type Outbox, type OutboxOptions, pgDatabase } from "@waybill/postgres";
import type { RelayOptions } from "@waybill/relay";
import type { Worker, WorkerOptions } from "@waybill/worker";
import { type ConfirmChannel, connect } from "amqplib";
import type { PoolClient } from "pg";
import { pino } from "pino";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type Line, type Running, startLine } from "../support/line.ts";

/** A message as it lay in a queue, or is to lie there. */
export interface RawMessage {
  readonly content: Buffer;
  readonly properties: Readonly<Record<string, unknown>>;
}

/** The line with a worker that writes down what it runs, and a channel for whoever reaches the broker. */
export interface GuardedLine extends AsyncDisposable {
  readonly line: Line;
  readonly outbox: Outbox<PoolClient>;
  /** Everything that relay and worker have logged. */
  readonly logged: readonly string[];
  /** Starts a worker; resolves when it consumes. */
  startWorker(
    queues: readonly string[],
    register: (worker: Worker<PoolClient>) => void,
    options?: Partial<WorkerOptions<PoolClient>>,
  ): Promise<Running<Worker<PoolClient>>>;
  startRelay(options?: Partial<RelayOptions>): Running<unknown>;
  enqueue(n: number): Promise<string>;
  /** What handlers ran, in order. */
  ran(): Promise<readonly string[]>;
  /** Reasons of the dead letters, by class. */
  refused(): Promise<readonly { id: string; failure_class: string; message: string }[]>;
  /** Puts a message into a queue. */
  put(queue: string, message: RawMessage): Promise<void>;
  /** Takes a message out of a queue. */
  take(queue: string): Promise<RawMessage>;
}

/** A ring with one fresh key for each id. */
export const keyRing = (...ids: string[]): KeyRing =>
  createKeyRing(ids.map((id) => `${id}:${randomBytes(32).toString("base64")}`).join());

/** The job of these tests. */
export const note = defineJob({
  name: "note.write",
  queue: "notes",
  payload: z.object({ n: z.int(), text: z.string().optional() }),
  retry: { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 },
});

/** Writes down that a job or event ran. */
export async function write(tx: PoolClient, what: string | number | undefined): Promise<void> {
  await tx.query("insert into ran (what) values ($1)", [String(what)]);
}

/** Registers a handler of {@link note}. */
export const writesNotes = (worker: Worker<PoolClient>): void =>
  worker.handleInTransaction(note, (job, tx) => write(tx, job.payload.n));

/** Starts the line without relay and worker. */
export async function startGuardedLine(
  outboxOptions: Partial<OutboxOptions<PoolClient>> = {},
): Promise<GuardedLine> {
  const stack = new AsyncDisposableStack();
  const line = stack.use(await startLine());
  const { database, vhost } = line;
  await database.pool.query("create table ran (n bigint generated always as identity, what text)");
  const connection = await connect(vhost.url);
  stack.defer(() => connection.close());
  const channel: ConfirmChannel = await connection.createConfirmChannel();
  const logged: string[] = [];
  const logger = pino({ level: "debug" }, { write: (text: string) => void logged.push(text) });
  const outbox = createOutbox({
    database: pgDatabase<PoolClient>(database.pool),
    ...outboxOptions,
  });
  const nameOf = (queue: string): string => `${vhost.prefix}.${queue}`;

  return {
    line,
    outbox,
    logged,
    startRelay: (options) => line.startRelay({ logger, ...options }),
    async startWorker(queues, register, options) {
      const running = line.startWorker(queues, register, { logger, ...options });
      await eventually(() => {
        const consumers = running.it.status().queues;
        return consumers.length > 0 && consumers.every(({ consumer }) => consumer === "consuming");
      });
      return running;
    },
    enqueue: (n) => line.transaction(async (tx) => (await outbox.enqueue(tx, note, { n })).jobId),
    async ran() {
      const rows = await database.rows<{ what: string }>("select what from ran order by n");
      return rows.map(({ what }) => what);
    },
    refused: () =>
      database.rows(
        "select id, failure_class, message from waybill.dead_letter order by died_at, id",
      ),
    async put(queue, { content, properties }) {
      channel.sendToQueue(nameOf(queue), content, properties);
      await channel.waitForConfirms();
    },
    async take(queue) {
      return await eventually(async () => {
        const message = await channel.get(nameOf(queue), { noAck: true });
        if (message === false) throw new Error(`Nothing is in ${queue}.`);
        return { content: message.content, properties: { ...message.properties } };
      });
    },
    async [Symbol.asyncDispose]() {
      await stack.disposeAsync();
    },
  };
}
