/** The broker, or the way to it, fails while the relay publishes. Nothing is lost and nothing is parked. */

import { expect, test } from "vitest";

import { startPrivateRabbitmq } from "../../scripts/services/index.ts";
import { eventually, startProxy } from "../support/index.ts";
import { enqueue, type House, isDrained, startHouse } from "./support.ts";

const many = (count: number): Record<string, unknown>[] =>
  Array.from({ length: count }, (_, n) => ({ payload: n, ordering_key: `key-${n % 5}` }));

const parkedIn = async (house: House): Promise<readonly unknown[]> =>
  await house.database.rows("select id from waybill.timer");

test("C1: connections that are cut while the relay publishes lose nothing, and keys keep their order", async () => {
  await using house = await startHouse();
  await using proxy = await startProxy(house.vhost.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const { prefix } = house.vhost;
  const relay = house.startRelay({
    batchSize: 50,
    broker: { url: proxy.url(house.vhost.url), prefix },
  });
  await eventually(() => relay.it.status().state === "leading");

  const ids: string[] = [];
  for (let cut = 1; cut <= 4; cut += 1) {
    ids.push(...(await enqueue(house.database.pool, many(200))));
    await eventually(() => collected.ids.length > (cut - 1) * 200 + 20);
    proxy.cut();
    await eventually(() => relay.it.status().broker === "ready" && proxy.connectionCount > 0);
  }

  await eventually(() => isDrained(house));
  await eventually(() => collected.ids.length === ids.length);
  expect(new Set(collected.ids)).toEqual(new Set(ids));
  const place = new Map(ids.map((id, n) => [id, n]));
  for (let key = 0; key < 5; key += 1) {
    const own = collected.ids.map((id) => place.get(id) ?? -1).filter((n) => n % 5 === key);
    expect(own).toEqual(own.toSorted((a, b) => a - b));
  }
  expect(await parkedIn(house)).toEqual([]);
});

test("a broker that cannot be reached for a while parks nothing, and the relay says what is wrong", async () => {
  await using house = await startHouse();
  await using proxy = await startProxy(house.vhost.url);
  await house.declare("email");
  const { prefix } = house.vhost;
  const relay = house.startRelay({ broker: { url: proxy.url(house.vhost.url), prefix } });
  await eventually(() => relay.it.status().state === "leading");

  proxy.refuse();
  await eventually(() => relay.it.status().broker === "connecting");
  const ids = await enqueue(house.database.pool, many(300));
  await eventually(() => relay.it.status().lastError?.includes("RabbitMQ") === true);
  await eventually(() => relay.it.status().unsettled > 0);
  expect(await parkedIn(house)).toEqual([]);
  proxy.pass();

  const collected = await house.collect("email");
  await eventually(() => collected.ids.length === ids.length);
  await eventually(() => relay.it.status().lastError === undefined);
  expect(await parkedIn(house)).toEqual([]);
});

test("C2: a black hole is noticed by the relay's own confirm timeout, and everything is published again", async () => {
  await using house = await startHouse();
  await using proxy = await startProxy(house.vhost.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const { prefix } = house.vhost;
  const relay = house.startRelay({
    confirmTimeoutMs: 500,
    broker: { url: proxy.url(house.vhost.url), prefix },
  });
  await enqueue(house.database.pool, many(20));
  await eventually(() => collected.ids.length === 20);

  proxy.blackHole("in");
  await enqueue(house.database.pool, many(100));
  await eventually(() => relay.it.status().republished >= 100);
  proxy.pass();
  proxy.cut();

  await eventually(() => isDrained(house), { deadlineMs: 20_000 });
  await eventually(() => collected.ids.length === 120);
  expect(await parkedIn(house)).toEqual([]);
});

test("C1: a confirm whose answer is lost publishes the message again with the same identity", async () => {
  await using house = await startHouse();
  await using proxy = await startProxy(house.vhost.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const { prefix } = house.vhost;
  const relay = house.startRelay({ broker: { url: proxy.url(house.vhost.url), prefix } });
  await eventually(
    () => relay.it.status().state === "leading" && relay.it.status().broker === "ready",
  );
  proxy.cutReply("marker-of-this-message");

  const [id] = await enqueue(house.database.pool, [{ type: "marker-of-this-message" }]);

  await eventually(() => collected.messages.length === 2);
  await eventually(() => isDrained(house));
  expect(collected.messages.map((message) => message.id)).toEqual([id, id]);
  expect(collected.messages.map(({ headers }) => headers["waybill-dispatch"])).toEqual([1, 1]);
});

test("C7, C8: a broker that is frozen, then killed and started again, loses no confirmed message", async () => {
  await using server = await startPrivateRabbitmq();
  await using house = await startHouse({
    vhost: { rabbitmqUrl: server.url, managementUrl: server.managementUrl },
  });
  await house.declare("email");
  const relay = house.startRelay({ batchSize: 100, confirmTimeoutMs: 1_000 });
  const ids = [...(await enqueue(house.database.pool, many(300)))];
  await eventually(() => relay.it.status().published > 50);

  await server.kill("SIGSTOP");
  ids.push(...(await enqueue(house.database.pool, many(200))));
  await eventually(() => relay.it.status().unsettled > 0);
  await server.kill("SIGCONT");
  await eventually(() => isDrained(house), { deadlineMs: 40_000 });
  ids.push(...(await enqueue(house.database.pool, many(500))));
  await server.kill("SIGKILL");
  ids.push(...(await enqueue(house.database.pool, many(100))));
  await server.start();

  await eventually(() => isDrained(house), { deadlineMs: 60_000 });
  await house.broker.ready(AbortSignal.timeout(20_000));
  const collected = await eventually(() => house.collect("email"), { deadlineMs: 20_000 });
  await eventually(() => collected.ids.length === ids.length, { deadlineMs: 20_000 });
  expect(new Set(collected.ids)).toEqual(new Set(ids));
  expect(await parkedIn(house)).toEqual([]);
}, 180_000);

test("A02, C6: while the broker has an alarm the relay reads no further, stops quickly, and goes on when it is over", async () => {
  await using server = await startPrivateRabbitmq();
  await using house = await startHouse({
    vhost: { rabbitmqUrl: server.url, managementUrl: server.managementUrl },
  });
  await house.declare("email");
  const relay = house.startRelay({ batchSize: 100 });
  await eventually(() => relay.it.status().state === "leading");
  await server.ctl("set_vm_memory_high_watermark", "absolute", "1MB");

  const ids = await enqueue(house.database.pool, many(5_000));
  await eventually(() => relay.it.status().broker === "blocked");
  expect(relay.it.status().unsettled).toBeLessThanOrEqual(2_300);
  await relay.stop();
  const next = house.startRelay({ batchSize: 100 });
  await server.ctl("set_vm_memory_high_watermark", "0.6");

  await eventually(() => isDrained(house), { deadlineMs: 30_000 });
  const collected = await house.collect("email");
  await eventually(() => collected.ids.length === ids.length, { deadlineMs: 20_000 });
  expect(next.it.status().parked).toBe(0);
  expect(await parkedIn(house)).toEqual([]);
}, 120_000);
