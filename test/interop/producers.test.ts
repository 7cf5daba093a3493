import { connect as managed } from "amqp-connection-manager";
import { Connection } from "rabbitmq-client";
import rascal from "rascal";
import { expect, test } from "vitest";
import { type ForeignLine, startForeignLine } from "../foreign/foreign-line.ts";
import { runPika, runProgram } from "./programs.ts";

const typed = { type: "emails.welcome" } as const;

/** Payloads of the jobs that ran, once the outcome of `count` messages is known and all of them ran. */
async function ran(foreign: ForeignLine, count = 1): Promise<readonly unknown[]> {
  for (const { outcome, reason } of await foreign.settled(count)) {
    if (outcome !== "ran") throw new Error(`A message did not run: ${outcome}, ${reason}`);
  }
  return (await foreign.handled()).map((text) => JSON.parse(text) as unknown);
}

test("a message of pika's tutorial runs once", async () => {
  await using foreign = await startForeignLine();

  await runPika(
    `
import json, sys, pika
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
channel = connection.channel()
channel.basic_publish(exchange='', routing_key='waybill.emails', body=json.dumps({'to': 'zoë@example.com', 'n': 1}))
connection.close()
`,
    foreign.line.vhost.url,
  );

  expect(await ran(foreign)).toEqual([{ to: "zoë@example.com", n: 1 }]);
});

test("a careful message of pika's runs once however often it is sent, and its headers reach the handler", async () => {
  await using foreign = await startForeignLine();

  await runPika(
    `
import datetime, decimal, json, sys, time, pika
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
channel = connection.channel()
channel.confirm_delivery()
properties = pika.BasicProperties(
    content_type='application/json', content_encoding='utf-8', delivery_mode=2, priority=0,
    message_id='8F7410F8C62643F3AA5AA22318F0E00A', type='emails.welcome', timestamp=int(time.time()),
    correlation_id='ord-1', app_id='billing-py',
    headers={'attempt': 1, 'big': 2**40, 'when': datetime.datetime(2026, 11, 30), 'money': decimal.Decimal('12.3'),
             'none': None, 'nested': {'a': [1, 'b', True]}, 'blob': b'\\x00\\xff', 'uni': 'Zoë 🦆'})
for _ in range(3):
    channel.basic_publish('waybill.jobs', 'emails', json.dumps({'to': 'ada'}).encode(), properties, mandatory=True)
connection.close()
`,
    foreign.line.vhost.url,
  );

  expect(await ran(foreign)).toEqual([{ to: "ada" }]);
  expect(await foreign.line.database.rows("select id from waybill.inbox")).toEqual([
    { id: "8f7410f8-c626-43f3-aa5a-a22318f0e00a" },
  ]);
});

test("a message of amqp-publish runs, with the type as a header", async () => {
  await using foreign = await startForeignLine({ jobs: { emails: ["emails.welcome", "other"] } });
  const { url } = foreign.line.vhost;

  await runProgram(
    "amqp-publish",
    [
      `--url=${url}`,
      "-e",
      "waybill.jobs",
      "-r",
      "emails",
      "-p",
      "-C",
      "application/json",
      "-H",
      "type: emails.welcome",
    ],
    '{"to":"shell@example.com"}',
  );

  expect(await ran(foreign)).toEqual([{ to: "shell@example.com" }]);
});

test("a message of rascal's runs once", async () => {
  await using foreign = await startForeignLine();
  const broker = await rascal.BrokerAsPromised.create(
    rascal.withDefaultConfig({
      vhosts: {
        [foreign.line.vhost.name]: {
          connection: { url: foreign.line.vhost.url },
          exchanges: { "waybill.jobs": { assert: false, check: true } },
          publications: { jobs: { exchange: "waybill.jobs", routingKey: "emails" } },
        },
      },
    }),
  );

  const publication = await broker.publish("jobs", { to: "rascal@example.com" });
  await new Promise((resolve, reject) => {
    publication.on("success", resolve);
    publication.on("error", reject);
  });
  await broker.shutdown();

  expect(await ran(foreign)).toEqual([{ to: "rascal@example.com" }]);
});

test("a message of rabbitmq-client's runs once", async () => {
  await using foreign = await startForeignLine();
  const connection = new Connection(foreign.line.vhost.url);
  const publisher = connection.createPublisher({ confirm: true });

  await publisher.send(
    {
      exchange: "waybill.jobs",
      routingKey: "emails",
      ...typed,
      messageId: "rc-1",
      durable: true,
      headers: { n: 1, when: new Date() },
    },
    { to: "rc@example.com" },
  );
  await publisher.close();
  await connection.close();

  expect(await ran(foreign)).toEqual([{ to: "rc@example.com" }]);
});

test("a message of amqp-connection-manager's runs once", async () => {
  await using foreign = await startForeignLine();
  const connection = managed([foreign.line.vhost.url]);
  const channel = connection.createChannel({
    json: true,
    confirm: true,
  });

  await channel.publish("waybill.jobs", "emails", { to: "acm@example.com" }, { persistent: true });
  await channel.close();
  await connection.close();

  expect(await ran(foreign)).toEqual([{ to: "acm@example.com" }]);
});

test("messages of amqplib with the usual slips run: no properties, milliseconds, a number as priority", async () => {
  await using foreign = await startForeignLine();
  const body = Buffer.from('{"to":"a@b.c"}');

  foreign.channel.sendToQueue("waybill.emails", body);
  foreign.channel.publish("waybill.jobs", "emails", body, {
    ...typed,
    timestamp: Date.now(),
    priority: 3,
  });
  foreign.channel.publish("waybill.jobs", "emails", body, {
    contentType: "",
    messageId: "",
    type: "",
  });
  await foreign.channel.waitForConfirms();

  expect(await ran(foreign, 3)).toEqual([{ to: "a@b.c" }, { to: "a@b.c" }, { to: "a@b.c" }]);
});
