import { type ChannelModel, type ConfirmChannel, connect } from "amqplib";
import { defineJob } from "@waybill/core";
import type { Worker, WorkerOptions } from "@waybill/worker";
import type { PoolClient } from "pg";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type Line, type Running, startLine } from "../support/line.ts";

type Queues = WorkerOptions<PoolClient>["queues"];

/** A message as a client that is not ours would send it. */
export interface ForeignMessage {
  readonly exchange?: string | undefined;
  readonly routingKey?: string | undefined;
  readonly body: string | Buffer;
  readonly properties?: Readonly<Record<string, unknown>> | undefined;
}

/** What became of a message. */
export interface Outcome {
  readonly queue: string;
  readonly type: string;
  /** `ran`, `parked`, `cancelled` (it had expired), or the class of the failure that dead-lettered it. */
  readonly outcome: string;
  /** Why it did not run. */
  readonly reason: string | null;
}

/** The line with a worker of jobs that record what they get, and a channel to send it anything. */
export interface ForeignLine extends AsyncDisposable {
  readonly line: Line;
  /** Sends messages and waits until the broker has them; rejects where one is unroutable. */
  send(...messages: readonly ForeignMessage[]): Promise<void>;
  /** Every message that was taken off a queue, once it has an outcome. */
  outcomes(): Promise<readonly Outcome[]>;
  /** Payloads that handlers committed, as JSON text, in order. */
  handled(type?: string): Promise<readonly string[]>;
  /** Waits until `count` messages have an outcome and sees to it that nothing is left in a queue. */
  settled(count: number): Promise<readonly Outcome[]>;
  /** Bodies in a queue's dead-letter queue; takes them out. */
  deadLetters(queue: string, count: number): Promise<readonly DeadLetter[]>;
  /** Answers that anybody sent to the channel's reply queue. */
  readonly replies: readonly Buffer[];
  readonly channel: ConfirmChannel;
  /** Deploys the worker anew, with other options of its queues. */
  restart(queues: Queues): Promise<void>;
  /** Proves that the worker still works: a plain message runs. */
  isAlive(queue?: string): Promise<void>;
}

/** A message of a dead-letter queue. */
export interface DeadLetter {
  readonly content: Buffer;
  readonly type: unknown;
  readonly messageId: unknown;
  readonly headers: Readonly<Record<string, unknown>>;
}

const anything = z.unknown();
const recipient = z.looseObject({ to: z.string() });

/** Job of plain JSON messages. */
export const welcome = { name: "emails.welcome", payload: recipient } as const;

/** Options of {@link startForeignLine}. */
export interface ForeignLineOptions {
  /** By default one queue "emails" of plain JSON. */
  readonly queues?: Queues;
  /** Jobs by queue, payloads of any shape; default: `emails.welcome` of emails, `{ to }`. */
  readonly jobs?: Readonly<Record<string, readonly string[]>>;
  readonly relay?: boolean;
}

/** Starts the line; resolves when the worker consumes. */
export async function startForeignLine(options: ForeignLineOptions = {}): Promise<ForeignLine> {
  const queues = options.queues ?? { emails: { concurrency: 5 } };
  const stack = new AsyncDisposableStack();
  const line = stack.use(await startLine());
  await line.database.pool.query(
    "create table handled (n bigint generated always as identity, id uuid, type text, payload text)",
  );
  if (options.relay !== false) line.startRelay();
  const jobs: Readonly<Record<string, readonly string[]>> = options.jobs ?? {
    emails: [welcome.name],
  };

  async function startWorker(of: Queues): Promise<Running<Worker<PoolClient>>> {
    const running = line.startWorker(
      Object.keys(of),
      (it) => {
        for (const [queue, names] of Object.entries(jobs)) {
          for (const name of names) {
            const payload = options.jobs === undefined ? recipient : anything;
            it.handleInTransaction(defineJob({ name, queue, payload }), async (job, tx) => {
              await tx.query("insert into handled (id, type, payload) values ($1, $2, $3)", [
                job.id,
                job.name,
                JSON.stringify(job.payload),
              ]);
            });
          }
        }
      },
      { queues: of },
    );
    await eventually(() => {
      const consumers = running.it.status().queues;
      return consumers.length > 0 && consumers.every(({ consumer }) => consumer === "consuming");
    });
    return running;
  }

  let worker = await startWorker(queues);
  const connection: ChannelModel = await connect(line.vhost.url);
  stack.defer(() => connection.close());
  const channel = await connection.createConfirmChannel();
  const replies: Buffer[] = [];
  await channel.consume("amq.rabbitmq.reply-to", (reply) => reply && replies.push(reply.content), {
    noAck: true,
  });
  const names = { jobs: `${line.vhost.prefix}.jobs`, queue: `${line.vhost.prefix}.emails` };

  async function send(...messages: readonly ForeignMessage[]): Promise<void> {
    const returned: string[] = [];
    const onReturn = (message: { fields: { routingKey: string } }): unknown =>
      returned.push(message.fields.routingKey);
    channel.on("return", onReturn);
    for (const { exchange = names.jobs, routingKey = "emails", body, properties } of messages) {
      const content = typeof body === "string" ? Buffer.from(body) : body;
      channel.publish(exchange, routingKey, content, { ...properties, mandatory: true });
    }
    await channel.waitForConfirms();
    channel.off("return", onReturn);
    if (returned.length > 0) throw new Error(`Nobody takes ${returned.join(", ")}.`);
  }

  async function outcomes(): Promise<readonly Outcome[]> {
    return await line.database.rows<Outcome & Record<string, unknown>>(
      `select i.queue, i.type, coalesce(d.failure_class, case i.state when 'succeeded' then 'ran' else i.state end) as outcome,
              d.message as reason
       from waybill.inbox as i left join waybill.dead_letter as d using (id, queue)
       where i.state in ('succeeded', 'failed', 'cancelled')
       union all
       select t.queue, t.type, 'parked', t.detail from waybill.timer as t where t.reason = 'no_handler'
       order by queue, type, outcome, reason`,
    );
  }

  async function handled(type?: string): Promise<readonly string[]> {
    const rows = await line.database.rows<{ payload: string }>(
      "select payload from handled where type = coalesce($1, type) order by n",
      [type ?? null],
    );
    return rows.map((row) => row.payload);
  }

  return {
    line,
    channel,
    replies,
    send,
    outcomes,
    handled,
    async settled(count) {
      const found = await eventually(async () => {
        const all = await outcomes();
        if (all.length === count) return all;
        const rows = await line.database.rows(
          "select state, count(*)::int from waybill.inbox group by state union all select reason, count(*)::int from waybill.timer group by reason",
        );
        throw new Error(`${all.length} of ${count} have an outcome: ${JSON.stringify(rows)}`);
      });
      for (const queue of Object.keys(queues)) {
        const { messageCount } = await channel.checkQueue(`${line.vhost.prefix}.${queue}`);
        if (messageCount > 0) throw new Error(`${messageCount} messages are left in ${queue}.`);
      }
      return found;
    },
    async deadLetters(queue, count) {
      const letters: DeadLetter[] = [];
      await eventually(async () => {
        const message = await channel.get(`${line.vhost.prefix}.${queue}.dlq`, { noAck: true });
        if (message !== false) {
          const { headers = {}, type, messageId } = message.properties;
          letters.push({ content: message.content, type, messageId, headers });
        }
        return letters.length >= count;
      });
      return letters;
    },
    async restart(of) {
      await worker.stop();
      worker = await startWorker(of);
    },
    async isAlive(queue = "emails") {
      const before = (await handled(welcome.name)).length;
      await send({
        routingKey: queue,
        body: '{"to":"alive@example.com"}',
        properties: { type: welcome.name, headers: { "waybill-dispatch": 1 } },
      });
      await eventually(async () => (await handled(welcome.name)).length === before + 1);
    },
    async [Symbol.asyncDispose]() {
      await stack.disposeAsync();
    },
  };
}
