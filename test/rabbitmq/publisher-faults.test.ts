import { names } from "@waybill/rabbitmq";
import { expect, test } from "vitest";

import { createTestVhost, eventually, startProxy } from "../support/index.ts";
import { connected, declared, message, recordingPublisher, removed } from "./support.ts";

/** A publisher whose connection goes through a fault proxy; set-up and removal go around it. */
async function setUp(options: Parameters<typeof recordingPublisher>[1] = {}) {
  const stack = new AsyncDisposableStack();
  const vhost = stack.use(await createTestVhost());
  const admin = stack.use(await connected(vhost.url));
  const topology = await declared(admin, vhost.prefix, ["mail"]);
  stack.defer(() => removed(admin, topology));
  const proxy = stack.use(await startProxy(vhost.url));
  const connection = stack.use(await connected(proxy.url(vhost.url)));
  const publisher = stack.use(recordingPublisher(connection, options));
  await publisher.capacity();
  const at = names(vhost.prefix);
  return {
    proxy,
    connection,
    publisher,
    mail: (id: string) => message(id, at.jobsExchange, "mail"),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const range = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `m${index}`);

test("A01, C1: a reset before any confirm makes every publish unknown, and publishing goes on after it", async () => {
  await using env = await setUp();
  const { proxy, publisher, mail } = env;
  proxy.blackHole("in");
  for (const id of range(50)) publisher.publish(mail(id));

  proxy.cut();
  proxy.pass();
  await publisher.idle();
  while (publisher.capacity() !== undefined) await publisher.capacity();
  publisher.publish(mail("again"));
  await publisher.idle();

  expect(publisher.withStatus("unknown")).toEqual(range(50));
  expect([...publisher.outcomes.values()].every((list) => list.length === 1)).toBe(true);
  expect(await publisher.outcomeOf("again")).toEqual({ status: "confirmed" });
});

test("A01: a channel closed by the broker leaves no publish without outcome", async () => {
  await using env = await setUp();
  const { publisher, mail } = env;
  const bad = { ...mail("bad"), exchange: "no-such-exchange" };

  for (const id of range(50)) publisher.publish(mail(id));
  publisher.publish(bad);
  for (const id of range(50)) publisher.publish({ ...mail(`after-${id}`) });
  await publisher.idle();

  expect(publisher.outcomes.size).toBe(101);
  expect(publisher.withStatus("refused")).toEqual(["bad"]);
  expect(publisher.withStatus("confirmed")).toHaveLength(100);
});

test("C2: a half-open connection is given up after the confirm timeout", async () => {
  await using env = await setUp({ confirmTimeoutMs: 300 });
  const { proxy, connection, publisher, mail } = env;
  proxy.blackHole();

  publisher.publish(mail("lost"));
  await publisher.idle();
  await eventually(() => connection.state === "connecting");
  proxy.pass();
  while (publisher.capacity() !== undefined) await publisher.capacity();
  publisher.publish(mail("again"));
  await publisher.idle();

  expect(await publisher.outcomeOf("lost")).toEqual({
    status: "unknown",
    reason: "no confirm within 300 ms",
  });
  expect(await publisher.outcomeOf("again")).toEqual({ status: "confirmed" });
});

test("a message published without a connection is unknown at once, and capacity waits for the connection", async () => {
  await using env = await setUp();
  const { proxy, connection, publisher, mail } = env;
  proxy.refuse();
  await eventually(() => connection.state === "connecting");

  publisher.publish(mail("now"));
  const room = publisher.capacity();
  await publisher.idle();
  proxy.pass();
  await room;

  expect(await publisher.outcomeOf("now")).toEqual({ status: "unknown", reason: "not connected" });
  expect(connection.state).toBe("ready");
});

test("closing during a stall ends with an outcome for everything", async () => {
  await using env = await setUp();
  const { proxy, connection, publisher, mail } = env;
  proxy.blackHole();
  for (const id of range(5)) publisher.publish(mail(id));

  await publisher.close(100);
  await connection.close(100);

  expect(publisher.withStatus("unknown")).toEqual(range(5));
  expect(publisher.outstanding).toBe(0);
  expect(connection.state).toBe("closed");
});
