import { defineJob } from "@waybill/core";
import { applyTopology, createBrokerConnection, topologyOf } from "@waybill/rabbitmq";
import { silentLogger } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { type Line, startLine } from "../support/line.ts";
import { eventually } from "../support/index.ts";
import { runPika, runProgram } from "./programs.ts";

const welcome = defineJob({ name: "emails.welcome", queue: "emails", payload: z.unknown() });
const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/** Declares the queue that a worker would have declared; here nobody of ours consumes. */
async function declareQueue(line: Line): Promise<void> {
  await using connection = createBrokerConnection({
    url: line.vhost.url,
    name: "interop",
    logger: silentLogger,
  });
  await connection.ready();
  await applyTopology(
    connection,
    topologyOf({ prefix: line.vhost.prefix, queues: ["emails"] }),
    "assert",
  );
}

/** Takes one message and prints what pika made of it, with the AMQP tag of each header. */
const readOne = `
import json, sys, pika, pika.data
tags = []
decode = pika.data.decode_value
def traced(encoded, offset):
    tags.append(chr(encoded[offset]))
    return decode(encoded, offset)
pika.data.decode_value = traced
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
channel = connection.channel()
tags.clear()
method, properties, body = channel.basic_get('waybill.emails', auto_ack=True)
connection.close()
print(json.dumps(None if method is None else {
    'type': properties.type, 'id': properties.message_id, 'contentType': properties.content_type,
    'mode': properties.delivery_mode, 'correlationId': properties.correlation_id, 'timestamp': properties.timestamp,
    'headers': properties.headers, 'tags': dict(zip(properties.headers, tags)), 'body': body.decode('utf-8')}))
`;

interface Read {
  readonly type: string;
  readonly id: string;
  readonly contentType: string;
  readonly mode: number;
  readonly correlationId: string;
  readonly timestamp: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly tags: Readonly<Record<string, string>>;
  readonly body: string;
}

test("pika reads a job of ours: id, type, headers as text and int64, and the body as UTF-8", async () => {
  await using line = await startLine();
  await declareQueue(line);
  line.startRelay();

  const { jobId } = await line.transaction((tx) =>
    line.outbox.enqueue(
      tx,
      welcome,
      { to: "zoë@example.com", duck: "🦆" },
      { headers: { traceparent }, orderingKey: "customer:42", correlationId: "ord-1" },
    ),
  );
  const read = (await eventually(() => runPika(readOne, line.vhost.url))) as Read;

  expect(read).toMatchObject({
    id: jobId,
    type: "emails.welcome",
    contentType: "application/json",
    mode: 2,
    correlationId: "ord-1",
    timestamp: expect.any(Number) as number,
    headers: {
      traceparent,
      "waybill-dispatch": 1,
      "waybill-version": 1,
      "waybill-ordering-key": "customer:42",
    },
    tags: {
      traceparent: "S",
      "waybill-dispatch": "l",
      "waybill-version": "l",
      "waybill-enqueued-at": "l",
    },
  });
  expect(JSON.parse(read.body)).toEqual({ to: "zoë@example.com", duck: "🦆" });
});

test("the type of a header does not change with its value: dispatch 300 and 100,000 are int64 as well", async () => {
  await using line = await startLine();
  await declareQueue(line);
  line.startRelay();

  for (const dispatch of [300, 100_000]) {
    await line.database.pool.query(
      "insert into waybill.outbox (id, dispatch, queue, type, payload) values (gen_random_uuid(), $1, 'emails', 'emails.welcome', '{}')",
      [dispatch],
    );
    const read = (await eventually(() => runPika(readOne, line.vhost.url))) as Read;

    expect(read.headers["waybill-dispatch"]).toBe(dispatch);
    expect(read.tags["waybill-dispatch"]).toBe("l");
  }
});

test("amqp-get prints the body of a job of ours, byte for byte", async () => {
  await using line = await startLine();
  await declareQueue(line);
  line.startRelay();
  const body = '{ "to":"zoë@example.com", "n":12345678901234567890, "z":-0.0 }';

  await line.database.pool.query(
    "select waybill.enqueue(jsonb_build_array(jsonb_build_object('type', 'emails.welcome', 'queue', 'emails', 'body', $1::text)))",
    [body],
  );
  const { stdout } = await eventually(() =>
    runProgram("amqp-get", [`--url=${line.vhost.url}`, "-q", "waybill.emails"]),
  );

  expect(stdout.toString("utf8")).toBe(body);
});
