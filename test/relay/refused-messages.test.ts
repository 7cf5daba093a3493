/** What the broker does not take: unroutable, nacked and refused messages, and their neighbours. */

import { queueDepth } from "@waybill/rabbitmq";
import { expect, test } from "vitest";

import { onChannel } from "../rabbitmq/support.ts";
import { eventually } from "../support/index.ts";
import { enqueue, type House, isDrained, startHouse } from "./support.ts";

interface TimerRow {
  readonly id: string;
  readonly reason: string;
  readonly detail: string;
  readonly failures: number;
  readonly held: boolean;
}

const timersOf = async (house: House): Promise<readonly TimerRow[]> =>
  await house.database.rows<TimerRow & Record<string, unknown>>(
    "select id, reason, detail, failures, fire_at = 'infinity' as held from waybill.timer order by id",
  );

/** Makes everything that waits due now. */
const hurry = async (house: House): Promise<void> => {
  await house.database.rows(
    "update waybill.timer set fire_at = clock_timestamp() where fire_at < 'infinity'",
  );
};

test("A03, C4: messages without a binding are never marked sent; all of them arrive after the binding is back", async () => {
  await using house = await startHouse();
  const { prefix } = house.vhost;
  await house.declare("email");
  await onChannel(house.broker, (channel) =>
    channel.unbindQueue(`${prefix}.email`, `${prefix}.jobs`, "email"),
  );
  const collected = await house.collect("email");
  const relay = house.startRelay({ broker: { url: house.vhost.url, prefix, topology: "check" } });

  const ids = await enqueue(
    house.database.pool,
    Array.from({ length: 100 }, () => ({})),
  );
  await eventually(async () => {
    const timers = await timersOf(house);
    expect(timers).toHaveLength(100);
    expect(new Set(timers.map(({ reason }) => reason))).toEqual(new Set(["unroutable"]));
    expect(timers[0]?.detail).toContain(`no queue is bound to exchange "${prefix}.jobs"`);
  });
  expect(relay.it.status()).toMatchObject({ published: 0, parked: 100 });
  expect(collected.messages).toHaveLength(0);
  await onChannel(house.broker, (channel) =>
    channel.bindQueue(`${prefix}.email`, `${prefix}.jobs`, "email"),
  );

  await eventually(() => collected.ids.length === 100);
  expect(new Set(collected.ids)).toEqual(new Set(ids));
  await eventually(async () => expect(await timersOf(house)).toEqual([]));
});

test("C4: a queue that an operator deleted is declared again when a message comes back from it", async () => {
  await using house = await startHouse();
  const { prefix } = house.vhost;
  house.startRelay();
  await enqueue(house.database.pool, [{}]);
  await eventually(() => isDrained(house));
  await onChannel(house.broker, (channel) => channel.deleteQueue(`${prefix}.email`));

  const [id] = await enqueue(house.database.pool, [{}]);

  await eventually(async () => expect(await timersOf(house)).toHaveLength(1));
  await eventually(async () =>
    expect(await queueDepth(house.broker, `${prefix}.email`)).toBeDefined(),
  );
  await hurry(house);
  const collected = await house.collect("email");
  await eventually(() => collected.ids.includes(id ?? ""));
});

test("A08, B7, J4: one message to an exchange that does not exist and one that is too large are parked with their reasons, the other 98 arrive", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const good = Array.from({ length: 98 }, () => ({}));
  const jobs: Record<string, unknown>[] = good.toSpliced(
    31,
    0,
    {
      kind: "route",
      exchange: "nowhere",
      routing_key: "x",
      id: "01890000-0000-7000-8000-000000000001",
    },
    { id: "01890000-0000-7000-8000-000000000002" },
  );
  await enqueue(house.database.pool, jobs);
  // Larger than enqueue lets through: as a row that other software wrote.
  await house.database.rows(
    "update waybill.outbox set payload = repeat('x', 17 * 1024 * 1024) where id = '01890000-0000-7000-8000-000000000002'",
  );

  const relay = house.startRelay();

  await eventually(() => collected.ids.length === 98);
  await eventually(async () => {
    expect(await timersOf(house)).toEqual([
      expect.objectContaining({
        reason: "refused",
        detail: expect.stringContaining("nowhere") as string,
      }),
      expect.objectContaining({
        reason: "refused",
        detail: expect.stringContaining("bytes") as string,
      }),
    ]);
  });
  await eventually(() => isDrained(house));
  expect(relay.it.status().parked).toBe(2);
});

test("B7: a message that is refused again and again waits for an operator in the end", async () => {
  await using house = await startHouse();
  house.startRelay();
  await enqueue(house.database.pool, [{ kind: "route", exchange: "nowhere", routing_key: "x" }]);

  const timers = await eventually(async () => {
    await hurry(house);
    const rows = await timersOf(house);
    return rows.some(({ held }) => held) && rows;
  });

  expect(timers).toEqual([
    expect.objectContaining({ reason: "refused", failures: 20, held: true }),
  ]);
});

test("C3: what a full queue does not take waits without a hot loop and arrives when there is room", async () => {
  await using house = await startHouse();
  const { prefix } = house.vhost;
  await onChannel(house.broker, async (channel) => {
    await channel.assertQueue("small", {
      durable: true,
      arguments: { "x-queue-type": "quorum", "x-max-length": 2, "x-overflow": "reject-publish" },
    });
  });
  const relay = house.startRelay({ broker: { url: house.vhost.url, prefix } });
  const total = 60;
  const some = (): Record<string, unknown>[] =>
    Array.from({ length: total / 2 }, () => ({
      kind: "route",
      exchange: "",
      routing_key: "small",
    }));
  // A quorum queue lets a burst pass its limit: the second one finds it full.
  await enqueue(house.database.pool, some());
  await eventually(() => isDrained(house));
  await enqueue(house.database.pool, some());
  await eventually(async () => {
    const timers = await timersOf(house);
    expect(timers.length).toBeGreaterThan(0);
    expect(new Set(timers.map(({ reason }) => reason))).toEqual(new Set(["nacked"]));
    expect(await isDrained(house)).toBe(true);
  });
  const parkedBefore = relay.it.status().parked;
  expect(parkedBefore).toBeLessThanOrEqual(total);

  const seen = new Set<string>();
  const channel = await house.broker.openChannel();
  await channel.raw.consume("small", (message) => {
    if (message === null) return;
    seen.add(String(message.properties.messageId));
    channel.raw.ack(message);
  });

  await eventually(async () => {
    await hurry(house);
    return seen.size === total;
  });
});

test("an event that nobody has subscribed to is kept, and arrives when a subscription comes", async () => {
  await using house = await startHouse();
  const { prefix } = house.vhost;
  house.startRelay();
  const [id] = await enqueue(house.database.pool, [{ kind: "event", type: "order.placed" }]);
  await eventually(async () => expect(await timersOf(house)).toHaveLength(1));

  await house.declare("billing");
  await onChannel(house.broker, (channel) =>
    channel.bindQueue(`${prefix}.billing`, `${prefix}.events`, "order.placed"),
  );
  const collected = await house.collect("billing");
  await hurry(house);

  await eventually(() => expect(collected.ids).toEqual([id]));
});

test("C5: an exchange that is deleted under load comes back and nothing is lost", async () => {
  await using house = await startHouse();
  const { prefix } = house.vhost;
  await house.declare("email");
  const collected = await house.collect("email");
  house.startRelay({ batchSize: 20 });
  const ids = [
    ...(await enqueue(
      house.database.pool,
      Array.from({ length: 100 }, () => ({})),
    )),
  ];

  await onChannel(house.broker, (channel) => channel.deleteExchange(`${prefix}.jobs`));
  ids.push(
    ...(await enqueue(
      house.database.pool,
      Array.from({ length: 100 }, () => ({})),
    )),
  );

  await eventually(
    async () => {
      await hurry(house);
      return collected.ids.length === 200;
    },
    { deadlineMs: 20_000, intervalMs: 100 },
  );
  expect(new Set(collected.ids)).toEqual(new Set(ids));
});

test("C5: topology check holds everything back while an exchange is missing, and says so", async () => {
  await using house = await startHouse();
  const { prefix } = house.vhost;
  const relay = house.startRelay({ broker: { url: house.vhost.url, prefix, topology: "check" } });
  await enqueue(house.database.pool, [{}]);

  await eventually(() => relay.it.status().lastError?.includes("waybill topology apply") === true);
  expect(await timersOf(house)).toEqual([]);
  await house.declare("email");
  const collected = await house.collect("email");

  await eventually(() => collected.ids.length === 1);
  await eventually(() => relay.it.status().lastError === undefined);
});
