import { randomBytes } from "node:crypto";
import {
  applyTopology,
  checkTopology,
  names,
  queueDepth,
  topologyOf,
  type TopologyResult,
} from "@waybill/rabbitmq";
import { expect, test } from "vitest";

import { createTestVhost } from "../support/index.ts";
import { connected, declared, message, onChannel, recordingPublisher, removed } from "./support.ts";

async function setUp() {
  const stack = new AsyncDisposableStack();
  const vhost = stack.use(await createTestVhost());
  const connection = stack.use(await connected(vhost.url));
  const topology = topologyOf({ prefix: vhost.prefix, queues: ["mail", "image"] });
  stack.defer(() => removed(connection, topology));
  return {
    vhost,
    connection,
    topology,
    at: names(vhost.prefix),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const notOk = (results: readonly TopologyResult[]): readonly TopologyResult[] =>
  results.filter(({ status }) => status !== "ok");

test("an applied topology can be applied again, and a message finds its queue and its dead-letter queue", async () => {
  await using env = await setUp();

  const first = await applyTopology(env.connection, env.topology, "assert");
  const second = await applyTopology(env.connection, env.topology, "assert");

  expect([first.ok, second.ok]).toEqual([true, true]);
  expect(first.results).toHaveLength(3 + 4 + 4);
  await using publisher = recordingPublisher(env.connection);
  await publisher.publishAll([
    message("a", env.at.jobsExchange, "mail"),
    message("b", env.at.dlxExchange, "mail"),
  ]);
  await publisher.idle();
  expect(publisher.withStatus("confirmed").toSorted()).toEqual(["a", "b"]);
  const queues = [env.at.queueName("mail"), env.at.deadLetterQueueName("mail")];
  for (const queue of queues) {
    expect(await queueDepth(env.connection, queue)).toEqual({ messages: 1, consumers: 0 });
  }
});

test("A13, D7: a queue that exists with other arguments is reported with both values, and the others are declared", async () => {
  await using env = await setUp();
  const queue = env.at.deadLetterQueueName("image");
  await onChannel(env.connection, (channel) =>
    channel.assertQueue(queue, { arguments: { "x-queue-type": "classic" } }),
  );

  const report = await applyTopology(env.connection, env.topology, "assert");

  expect(report.ok).toBe(false);
  expect(notOk(report.results)).toEqual([
    {
      kind: "queue",
      name: queue,
      status: "mismatch",
      differences: [{ argument: "x-queue-type", found: "classic", wanted: "quorum" }],
      message: expect.stringContaining(
        `Cannot use queue "${queue}" as it is: x-queue-type is "classic", wanted is "quorum". `,
      ),
    },
  ]);
  expect(await queueDepth(env.connection, env.at.queueName("mail"))).toBeDefined();
});

test("an exchange of another type is reported with both values", async () => {
  await using env = await setUp();
  await onChannel(env.connection, (channel) =>
    channel.assertExchange(env.at.jobsExchange, "fanout"),
  );

  const report = await applyTopology(env.connection, env.topology, "assert");

  expect(notOk(report.results)).toMatchObject([
    {
      kind: "exchange",
      name: env.at.jobsExchange,
      status: "mismatch",
      differences: [{ argument: "type", found: "fanout", wanted: "topic" }],
    },
  ]);
});

test("a check names what is missing, declares nothing, and finds a declared topology in order", async () => {
  await using env = await setUp();

  const before = await checkTopology(env.connection, env.topology);
  await declared(env.connection, env.vhost.prefix, ["mail", "image"]);
  const after = await applyTopology(env.connection, env.topology, "check");

  expect(before.results.filter(({ status }) => status === "missing")).toHaveLength(3 + 4);
  expect(before.ok).toBe(false);
  expect(after.ok).toBe(true);
});

test("off does nothing, and the depth of a queue that does not exist is not there", async () => {
  await using env = await setUp();

  expect(await applyTopology(env.connection, env.topology, "off")).toEqual({
    mode: "off",
    ok: true,
    results: [],
  });
  const nowhere = `nowhere-${randomBytes(4).toString("hex")}`;
  expect(await queueDepth(env.connection, nowhere)).toBeUndefined();
});
