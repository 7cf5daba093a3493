import {
  type BrokerChannel,
  type BrokerConnection,
  incomingMessage,
  names,
} from "@waybill/rabbitmq";
import type { ConsumeMessage } from "amqplib";
import { expect, test } from "vitest";

import { createTestVhost, eventually, startProxy } from "../support/index.ts";
import {
  connected,
  declared,
  holdingConsumer,
  idOf,
  message,
  onChannel,
  recordingPublisher,
  removed,
} from "./support.ts";

/** A declared queue `mail`, an admin connection around the proxy, and one through it. */
async function setUp() {
  const stack = new AsyncDisposableStack();
  const vhost = stack.use(await createTestVhost());
  const admin = stack.use(await connected(vhost.url));
  const topology = await declared(admin, vhost.prefix, ["mail"]);
  stack.defer(() => removed(admin, topology));
  const proxy = stack.use(await startProxy(vhost.url));
  const connection = stack.use(await connected(proxy.url(vhost.url)));
  const at = names(vhost.prefix);
  return {
    admin,
    topology,
    vhost,
    proxy,
    connection,
    queue: at.queueName("mail"),
    deadLetterQueue: at.deadLetterQueueName("mail"),
    /** Publishes messages m0, m1, … to the queue. */
    async fill(count: number, from = 0): Promise<void> {
      await using publisher = recordingPublisher(admin);
      const messages = Array.from({ length: count }, (_, index) =>
        message(`m${from + index}`, at.jobsExchange, "mail"),
      );
      await publisher.publishAll(messages);
      await publisher.idle();
      expect(publisher.withStatus("confirmed")).toHaveLength(count);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** The same connection, noting the channels that are opened on it. */
function watchingChannels(real: BrokerConnection): {
  readonly connection: BrokerConnection;
  readonly opened: readonly BrokerChannel[];
} {
  const opened: BrokerChannel[] = [];
  const connection: BrokerConnection = {
    name: real.name,
    generation: real.generation,
    lastError: real.lastError,
    capabilities: real.capabilities,
    get state() {
      return real.state;
    },
    ready: (signal) => real.ready(signal),
    tryReady: (signal) => real.tryReady(signal),
    openConfirmChannel: () => real.openConfirmChannel(),
    async openChannel() {
      const channel = await real.openChannel();
      opened.push(channel);
      return channel;
    },
    onStateChange: (listener) => real.onStateChange(listener),
    onReady: (listener) => real.onReady(listener),
    close: () => real.close(),
    [Symbol.asyncDispose]: () => real.close(),
  };
  return { connection, opened };
}

async function ready(connection: BrokerConnection, queue: string): Promise<number> {
  return (await onChannel(connection, (channel) => channel.checkQueue(queue))).messageCount;
}

test("a delivery carries the message as plain values", async () => {
  await using env = await setUp();
  await using held = holdingConsumer(env.connection, env.queue);
  await env.fill(1);

  const [delivery] = await held.received(1);

  expect(delivery?.queue).toBe(env.queue);
  expect(delivery && incomingMessage(delivery.message, "mail")).toMatchObject({
    queue: "mail",
    messageId: "m0",
    type: "test",
    redelivered: false,
    headers: { "waybill-dispatch": 1 },
  });
});

test("A10, D5: only completed deliveries are gone when the connection dies", async () => {
  await using env = await setUp();
  await env.fill(20);
  const first = holdingConsumer(env.connection, env.queue, { prefetch: 20 });
  const deliveries = await first.received(20);
  // 20 is done long before 1 to 19; 3 and 4 are dead-lettered and done in the middle.
  expect([19, 3].map((index) => deliveries[index]?.ack())).toEqual([true, true]);
  expect(deliveries[2]?.deadLetter()).toBe(true);
  await eventually(async () => (await ready(env.admin, env.deadLetterQueue)) === 1);

  env.proxy.cut();
  await first.consumer.close();
  await using second = holdingConsumer(env.admin, env.queue, { prefetch: 50 });
  const again = await second.received(17);

  const done = new Set(["m19", "m2", "m3"]);
  const uncompleted = deliveries.map(idOf).filter((id) => !done.has(id));
  expect(again.map(idOf).toSorted()).toEqual(uncompleted.toSorted());
  for (const delivery of again) delivery.ack();
  await second.consumer.close();
  expect(await ready(env.admin, env.queue)).toBe(0);
});

test("A09, D4: a settlement after a reconnect does nothing, and the new channel stays open", async () => {
  await using env = await setUp();
  await env.fill(3);
  await using held = holdingConsumer(env.connection, env.queue);
  const old = [...(await held.received(3))];

  env.proxy.cut();
  await eventually(() => held.deliveries.length === 6);
  const settled = [old[0]?.ack(), old[1]?.requeue(), old[2]?.deadLetter()];
  const fresh = held.deliveries.slice(3);

  expect(old.map((delivery) => delivery.generationAlive)).toEqual([false, false, false]);
  expect(settled).toEqual([false, false, false]);
  expect(held.consumer.health()).toMatchObject({ lateSettlements: 3, unsettled: 3 });
  expect(fresh.map((delivery) => delivery.ack())).toEqual([true, true, true]);
  await env.fill(1, 3);
  await held.received(7);
  expect(held.states).toEqual(["consuming", "waiting", "consuming"]);
  expect(await ready(env.admin, env.deadLetterQueue)).toBe(0);
});

test("a delivery is settled once: the second settlement does nothing", async () => {
  await using env = await setUp();
  await env.fill(1);
  await using held = holdingConsumer(env.connection, env.queue);
  const [delivery] = await held.received(1);

  expect(delivery?.ack()).toBe(true);
  expect(delivery?.deadLetter()).toBe(false);
  await env.fill(1, 1);
  await held.received(2);
  expect(held.consumer.health()).toMatchObject({ repeatedSettlements: 1, unsettled: 1 });
  expect(await ready(env.admin, env.deadLetterQueue)).toBe(0);
});

test("a requeued delivery comes back marked, a dead-lettered one goes to the dead-letter queue", async () => {
  await using env = await setUp();
  await env.fill(2);
  await using held = holdingConsumer(env.connection, env.queue);
  const [one, two] = await held.received(2);

  one?.requeue();
  two?.deadLetter();
  const [, , back] = await held.received(3);

  expect(back && [idOf(back), back.redelivered]).toEqual(["m0", true]);
  await eventually(async () => (await ready(env.admin, env.deadLetterQueue)) === 1);
});

test("D3: a channel that the broker closes takes no other channel along, and its consumer comes back", async () => {
  await using env = await setUp();
  await env.fill(2);
  const { connection, opened } = watchingChannels(env.connection);
  await using held = holdingConsumer(connection, env.queue);
  await using other = holdingConsumer(env.connection, env.deadLetterQueue);
  await eventually(() => other.consumer.state === "consuming");
  const [one] = await held.received(2);

  // A tag that the broker never gave: closed with 406, as after a consumer timeout.
  opened[0]?.raw.ack({ ...one?.message, fields: { deliveryTag: 99 } } as ConsumeMessage);
  await held.received(4);

  expect(one?.ack()).toBe(false);
  expect(held.deliveries.map(idOf).toSorted()).toEqual(["m0", "m0", "m1", "m1"]);
  expect(held.states).toEqual(["consuming", "waiting", "consuming"]);
  expect(other.states).toEqual(["consuming"]);
  expect(env.connection.generation).toBe(1);
});

test("A11, D6: a consumer whose queue was deleted is back after the queue is declared again", async () => {
  await using env = await setUp();
  await using held = holdingConsumer(env.connection, env.queue);
  await eventually(() => held.consumer.state === "consuming");

  await onChannel(env.admin, (channel) => channel.deleteQueue(env.queue));
  await eventually(() => held.consumer.health().reason === `queue "${env.queue}" does not exist`);
  await declared(env.admin, env.vhost.prefix, ["mail"]);
  await env.fill(1);
  await held.received(1);

  expect(held.states).toEqual(["consuming", "waiting", "consuming"]);
});

test("D6: a consumer whose queue is deleted and declared again in the same moment gets what comes, each time", async () => {
  await using env = await setUp();
  await using held = holdingConsumer(env.connection, env.queue, { renewMs: 300 });
  await eventually(() => held.consumer.state === "consuming");

  for (let round = 1; round <= 5; round += 1) {
    const queue = env.topology.queues.find(({ name }) => name === env.queue);
    // Sent together, so that nothing comes between the two.
    await onChannel(env.admin, async (channel) => {
      const gone = channel.deleteQueue(env.queue);
      await Promise.all([gone, channel.assertQueue(env.queue, { arguments: queue?.arguments })]);
    });
    await declared(env.admin, env.vhost.prefix, ["mail"]);
    await env.fill(3);
    await held.received(3 * round);
    for (const delivery of held.deliveries) delivery.ack();
  }

  expect(held.consumer.state).toBe("consuming");
});

test("D7: a consumer of a queue that does not exist has it declared and begins", async () => {
  await using env = await setUp();
  await onChannel(env.admin, (channel) => channel.deleteQueue(env.queue));
  let calls = 0;
  await using held = holdingConsumer(env.connection, env.queue, {
    ensureQueue: async () => {
      calls += 1;
      // The first try fails: the consumer must go on by itself.
      if (calls === 1) throw new Error("not yet");
      await declared(env.admin, env.vhost.prefix, ["mail"]);
    },
  });

  await eventually(() => held.consumer.state === "consuming");
  await env.fill(1);

  await held.received(1);
  expect(calls).toBe(2);
});

test("a paused consumer receives nothing, settles what it holds, and goes on when resumed", async () => {
  await using env = await setUp();
  await env.fill(2);
  await using held = holdingConsumer(env.connection, env.queue, { prefetch: 1 });
  const [one] = await held.received(1);

  await held.consumer.pause("database away");
  const paused = held.consumer.health();
  const settled = one?.ack();
  await eventually(async () => (await ready(env.admin, env.queue)) === 1);
  expect(held.deliveries).toHaveLength(1);
  held.consumer.resume();
  await held.received(2);

  expect(paused).toMatchObject({ state: "paused", reason: "database away", unsettled: 1 });
  expect(settled).toBe(true);
  expect(held.states).toEqual(["consuming", "paused", "waiting", "consuming"]);
});

test("a new prefetch takes effect while older deliveries stay settle-able", async () => {
  await using env = await setUp();
  await env.fill(10);
  await using held = holdingConsumer(env.connection, env.queue, { prefetch: 1 });
  const [one] = await held.received(1);

  held.consumer.setPrefetch(5);
  await held.received(6);

  expect(held.consumer.unsettled).toBe(6);
  expect(one?.ack()).toBe(true);
  await eventually(async () => (await ready(env.admin, env.queue)) === 4);
  expect(held.deliveries).toHaveLength(6);
});

test("a handler that throws gives its delivery back and keeps the others", async () => {
  await using env = await setUp();
  await env.fill(2);
  let thrown = 0;
  const seen: unknown[] = [];
  await using held = holdingConsumer(env.connection, env.queue, {
    onDelivery: (delivery) => {
      seen.push(idOf(delivery));
      if (idOf(delivery) === "m0" && thrown === 0) {
        thrown += 1;
        throw new Error("handler bug");
      }
    },
  });

  await eventually(() => seen.length === 3);

  expect(seen).toEqual(["m0", "m1", "m0"]);
  expect(held.consumer.unsettled).toBe(2);
  expect(held.states).toEqual(["consuming"]);
});

test("a closed consumer leaves nothing unsettled at the broker", async () => {
  await using env = await setUp();
  await env.fill(5);
  const held = holdingConsumer(env.connection, env.queue);
  const [one] = await held.received(5);
  one?.ack();

  await held.consumer.close();
  await held.consumer.close();

  // The broker requeues what a closed channel held after it has answered the close.
  await eventually(async () => (await ready(env.admin, env.queue)) === 4);
  expect(held.consumer.unsettled).toBe(0);
});
