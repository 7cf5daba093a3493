/** What only a broker of our own can show: it is killed, frozen and driven into an alarm. */

import { createManagementClient, names, queueDepth } from "@waybill/rabbitmq";
import { afterAll, beforeAll, expect, test } from "vitest";

import { type PrivateRabbitmq, startPrivateRabbitmq } from "../../scripts/services/index.ts";
import { eventually } from "../support/index.ts";
import {
  connected,
  declared,
  holdingConsumer,
  idOf,
  message,
  recordingLogger,
  recordingPublisher,
} from "./support.ts";

let broker: PrivateRabbitmq;

beforeAll(async () => {
  broker = await startPrivateRabbitmq();
}, 120_000);

afterAll(async () => {
  await broker.stop();
}, 60_000);

/** A queue of its own on the private broker, a publisher and a consumer on connections of their own. */
async function setUp(
  queue: string,
  confirmTimeoutMs = 10_000,
  options: Parameters<typeof holdingConsumer>[2] = {},
) {
  const stack = new AsyncDisposableStack();
  const publishing = stack.use(await connected(broker.url));
  const consuming = stack.use(await connected(broker.url));
  const at = names();
  await declared(consuming, "waybill", [queue]);
  const publisher = stack.use(recordingPublisher(publishing, { confirmTimeoutMs }));
  const held = stack.use(holdingConsumer(consuming, at.queueName(queue), options));
  await publisher.capacity();
  await eventually(() => held.consumer.state === "consuming");
  return {
    publishing,
    consuming,
    publisher,
    held,
    to: (id: string) => message(id, at.jobsExchange, queue),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const range = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `m${index}`);

test("C7, R13: a killed broker loses nothing that was confirmed, and publisher and consumer come back by themselves", async () => {
  const seen = new Set<string>();
  await using env = await setUp("killed", 10_000, {
    onDelivery: (delivery) => {
      seen.add(idOf(delivery));
      delivery.ack();
    },
  });
  const { publisher, held, to } = env;
  const gate = { killed: false };
  const ids = range(20_000);
  const publishing = (async () => {
    for (const id of ids) {
      while (!gate.killed && publisher.capacity() !== undefined) await publisher.capacity();
      if (gate.killed) break;
      publisher.publish(to(id));
    }
  })();
  await eventually(() => publisher.withStatus("confirmed").length > 1_000);

  await broker.kill("SIGKILL");
  gate.killed = true;
  await publisher.idle();
  await broker.start();
  await publishing;
  while (publisher.capacity() !== undefined) await publisher.capacity();
  publisher.publish(to("after"));
  await publisher.idle();

  const confirmed = publisher.withStatus("confirmed");
  expect(confirmed).toContain("after");
  await eventually(() => confirmed.every((id) => seen.has(id)), { deadlineMs: 30_000 });
  expect([...publisher.outcomes.values()].every((list) => list.length === 1)).toBe(true);
  expect(held.states).toEqual(["consuming", "waiting", "consuming"]);
}, 120_000);

/** Freezes the broker; thaws it at the latest at the end of the test. */
async function frozenBroker(): Promise<AsyncDisposable> {
  await broker.kill("SIGSTOP");
  return { [Symbol.asyncDispose]: () => broker.kill("SIGCONT") };
}

test("C8, A12: a frozen broker is noticed by the confirm timeout, and one consumer is back after it thaws", async () => {
  await using env = await setUp("frozen", 500);
  const { publishing, publisher, held, to, consuming } = env;

  await using _ = await frozenBroker();
  publisher.publish(to("frozen"));
  const frozen = await publisher.outcomeOf("frozen");
  await eventually(() => publishing.state === "connecting");
  await broker.kill("SIGCONT");
  while (publisher.capacity() !== undefined) await publisher.capacity();
  publisher.publish(to("again"));
  await publisher.idle();
  await eventually(() => held.deliveries.some((delivery) => idOf(delivery) === "again"));

  expect(frozen).toEqual({ status: "unknown", reason: "no confirm within 500 ms" });
  expect(await publisher.outcomeOf("again")).toEqual({ status: "confirmed" });
  const depth = await queueDepth(consuming, names().queueName("frozen"));
  expect(depth?.consumers).toBe(1);
}, 60_000);

test("C6, A02, R14: an alarm holds publishing back while consuming goes on, and what was written is confirmed afterwards", async () => {
  await using env = await setUp("alarm");
  const { publishing, consuming, publisher, held, to } = env;
  for (const id of range(10)) publisher.publish(to(id));
  await held.received(10);

  await broker.ctl("set_vm_memory_high_watermark", "0.00001");
  publisher.publish(to("blocked"));
  await eventually(() => publishing.state === "blocked");
  const room = publisher.capacity();
  for (const delivery of held.deliveries) delivery.ack();
  const depth = await queueDepth(consuming, names().queueName("alarm"));
  expect(room).toBeInstanceOf(Promise);
  expect(depth).toEqual({ messages: 0, consumers: 1 });
  expect(publisher.outcomes.has("blocked")).toBe(false);

  await broker.ctl("set_vm_memory_high_watermark", "0.4");
  await room;
  await publisher.idle();

  expect(await publisher.outcomeOf("blocked")).toEqual({ status: "confirmed" });
  expect(publishing.generation).toBe(1);
}, 60_000);

test("A02: closing while the broker blocks ends with an outcome for everything", async () => {
  await using env = await setUp("stopped");
  const { publishing, publisher, to } = env;
  await broker.ctl("set_vm_memory_high_watermark", "0.00001");
  publisher.publish(to("blocked"));
  await eventually(() => publishing.state === "blocked");

  await publisher.close();
  await publishing.close();
  await broker.ctl("set_vm_memory_high_watermark", "0.4");

  expect(await publisher.outcomeOf("blocked")).toEqual({
    status: "unknown",
    reason: "the publisher was closed before the confirm came",
  });
  expect(publishing.state).toBe("closed");
}, 60_000);

test("a connection closed by an operator comes back, and its consumer with it", async () => {
  const management = createManagementClient({ url: broker.managementUrl });
  const { logger, lines } = recordingLogger();
  await using connection = await connected(broker.url, logger);
  await declared(connection, "waybill", ["forced"]);
  await using held = holdingConsumer(connection, names().queueName("forced"));
  await eventually(() => held.consumer.state === "consuming");
  const mine = await eventually(
    async () => {
      const all = await management.connections();
      const named = all.filter((each) => each.user_provided_name === "waybill-test");
      return named.length > 0 && named;
    },
    { deadlineMs: 20_000 },
  );

  for (const { name } of mine) await management.closeConnection(name);
  await eventually(() => connection.generation === 2 && held.consumer.state === "consuming");

  expect(lines.join("\n")).toContain("the broker shut down, or an operator closed the connection");
}, 60_000);
