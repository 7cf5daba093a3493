import { names } from "@waybill/rabbitmq";
import { expect, test } from "vitest";

import { createTestVhost } from "../support/index.ts";
import { connected, declared, message, onChannel, recordingPublisher, removed } from "./support.ts";

/** A connection, a declared queue `mail` and a publisher, all removed at the end. */
async function setUp(options: Parameters<typeof recordingPublisher>[1] = {}) {
  const stack = new AsyncDisposableStack();
  const vhost = stack.use(await createTestVhost());
  const connection = stack.use(await connected(vhost.url));
  const topology = await declared(connection, vhost.prefix, ["mail"]);
  stack.defer(() => removed(connection, topology));
  const publisher = stack.use(recordingPublisher(connection, options));
  await publisher.capacity();
  return {
    at: names(vhost.prefix),
    connection,
    publisher,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const range = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `m${index}`);

test("each of many messages under multiple confirms gets one outcome, and the queue has them all", async () => {
  await using env = await setUp();
  const { at, connection, publisher } = env;

  await publisher.publishAll(range(5_000).map((id) => message(id, at.jobsExchange, "mail")));
  await publisher.idle();

  expect(publisher.withStatus("confirmed")).toHaveLength(5_000);
  expect([...publisher.outcomes.values()].filter((list) => list.length !== 1)).toEqual([]);
  const queue = await onChannel(connection, (channel) => channel.checkQueue(at.queueName("mail")));
  expect(queue.messageCount).toBe(5_000);
});

test("A03: a returned message is never confirmed, also between others and twice under one id", async () => {
  await using env = await setUp();
  const { at, publisher } = env;
  const messages = range(200).map((id, index) =>
    message(id, at.jobsExchange, index % 2 === 0 ? "mail" : "nowhere"),
  );

  await publisher.publishAll(messages);
  // The same id on its way to another exchange: only the address tells which one came back.
  publisher.publish({ ...message("m0", at.dlxExchange, "nowhere"), key: "copy" });
  publisher.publish({ ...message("m0", at.jobsExchange, "mail"), key: "original" });
  await publisher.idle();

  expect(publisher.withStatus("returned")).toEqual([
    ...range(200).filter((_, index) => index % 2 === 1),
    "copy",
  ]);
  expect(await publisher.outcomeOf("copy")).toEqual({
    status: "returned",
    reason: expect.stringContaining(`no queue is bound to exchange "${at.dlxExchange}"`),
  });
  expect(await publisher.outcomeOf("original")).toEqual({ status: "confirmed" });
});

test("C5: a missing exchange refuses its own messages only", async () => {
  await using env = await setUp();
  const { at, connection, publisher } = env;
  const bad = new Set([17, 18, 60]);
  const messages = range(100).map((id, index) =>
    message(id, bad.has(index) ? "no-such-exchange" : at.jobsExchange, "mail"),
  );

  await publisher.publishAll(messages);
  await publisher.idle();

  expect(publisher.withStatus("refused")).toEqual(["m17", "m18", "m60"]);
  expect(await publisher.outcomeOf("m17")).toEqual({
    status: "refused",
    reason: expect.stringContaining("NOT_FOUND - no exchange 'no-such-exchange'"),
  });
  expect(publisher.withStatus("confirmed")).toHaveLength(97);
  expect(connection.state).toBe("ready");
});

test("a message that cannot be encoded is refused before it reaches its neighbours' channel", async () => {
  await using env = await setUp();
  const { at, publisher } = env;
  const bad = message("bad", at.jobsExchange, "mail");

  publisher.publish(message("before", at.jobsExchange, "mail"));
  publisher.publish({
    ...bad,
    properties: { ...bad.properties, headers: { "x-death": ["garbage"] } },
  });
  publisher.publish(message("after", at.jobsExchange, "mail"));
  await publisher.idle();

  expect(await publisher.outcomeOf("bad")).toEqual({
    status: "refused",
    reason: "header x-death belongs to the broker",
  });
  expect(publisher.withStatus("confirmed")).toEqual(["before", "after"]);
});

test("C3: a full queue nacks, with a reason", async () => {
  await using env = await setUp();
  const { connection, publisher } = env;
  const { queue } = await onChannel(connection, (channel) =>
    channel.assertQueue("", {
      exclusive: false,
      autoDelete: false,
      arguments: { "x-max-length": 1, "x-overflow": "reject-publish" },
    }),
  );

  publisher.publish(message("first", "", queue));
  await publisher.idle();
  publisher.publish(message("second", "", queue));
  await publisher.idle();
  await onChannel(connection, (channel) => channel.deleteQueue(queue));

  expect(await publisher.outcomeOf("first")).toEqual({ status: "confirmed" });
  expect(await publisher.outcomeOf("second")).toEqual({
    status: "nacked",
    reason: expect.stringContaining("length limit"),
  });
});

test("the window bounds messages and bytes without outcome", async () => {
  await using env = await setUp({ windowMessages: 10, windowBytes: 1_000_000 });
  const { at, publisher } = env;

  for (const id of range(10)) publisher.publish(message(id, at.jobsExchange, "mail"));
  const byMessages = publisher.capacity();
  await publisher.idle();
  publisher.publish(message("big", at.jobsExchange, "mail", "x".repeat(1_000_000)));
  const byBytes = publisher.capacity();

  expect(byMessages).toBeInstanceOf(Promise);
  expect(byBytes).toBeInstanceOf(Promise);
  await byBytes;
  expect(publisher.capacity()).toBeUndefined();
});

test("a closed publisher has told every outcome and takes no more", async () => {
  await using env = await setUp();
  const { at, publisher } = env;
  for (const id of range(500)) publisher.publish(message(id, at.jobsExchange, "mail"));

  await publisher.close();
  publisher.publish(message("late", at.jobsExchange, "mail"));
  await publisher.idle();

  expect(publisher.withStatus("confirmed")).toHaveLength(500);
  expect(await publisher.outcomeOf("late")).toEqual({
    status: "unknown",
    reason: "the publisher is closed",
  });
  await publisher.close();
});
