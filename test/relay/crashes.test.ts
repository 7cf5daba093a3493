/** Relays that are killed at named points (B4), and what the next one makes of it. */

import { expect, test } from "vitest";

import { eventually } from "../support/index.ts";
import { enqueue, isDrained, startHouse } from "./support.ts";

const jobs = 300;
const page = 50;

async function killedAt(point: string, count: number): Promise<void> {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const ids = await enqueue(
    house.database.pool,
    Array.from({ length: jobs }, (_, n) => ({ payload: n, ordering_key: `key-${n % 7}` })),
  );

  const first = await house.spawnRelay({ options: { batchSize: page }, killAt: { point, count } });
  const exit = await first.exited;
  house.startRelay({ batchSize: page });

  expect(exit.signal).toBe("SIGKILL");
  await eventually(() => isDrained(house));
  await eventually(() => collected.ids.length === jobs);
  expect(new Set(collected.ids)).toEqual(new Set(ids));
  // Not more than what was on its way is repeated, and never in another order.
  expect(collected.messages.length - jobs).toBeLessThanOrEqual(3 * page);
  const bodies = collected.ids.map((id) =>
    Number(collected.messages.find((message) => message.id === id)?.body),
  );
  for (let key = 0; key < 7; key += 1) {
    const own = bodies.filter((n) => n % 7 === key);
    expect(own).toEqual(own.toSorted((a, b) => a - b));
  }
}

test("a relay killed after it published and before the confirm loses nothing", async () => {
  await killedAt("relay.afterPublish", 2);
});

test("a relay killed after a confirm and before its page is settled loses nothing", async () => {
  await killedAt("relay.afterConfirm", 120);
});

test("a relay killed before it saves its position loses nothing", async () => {
  await killedAt("relay.beforeSave", 1);
});

test("a relay killed after it saved its position in the middle of a window loses nothing", async () => {
  await killedAt("relay.afterSave", 1);
});

test("a relay killed after it parked a message and before it passed it loses nothing and doubles no timer", async () => {
  await using house = await startHouse();
  const unroutable = {
    broker: { url: house.vhost.url, prefix: house.vhost.prefix, topology: "check" as const },
  };
  await house.declare("other");
  await enqueue(house.database.pool, [{ queue: "missing" }, { queue: "other" }]);

  const first = await house.spawnRelay({
    options: unroutable,
    killAt: { point: "relay.afterPark", count: 1 },
  });
  await first.exited;
  await eventually(async () => {
    const timers = await house.database.rows("select queue, reason, failures from waybill.timer");
    expect(timers).toEqual([{ queue: "missing", reason: "unroutable", failures: 1 }]);
  });
  const others = await house.collect("other");
  house.startRelay();

  const collected = await eventually(async () => await house.collect("missing"));
  await eventually(() => collected.messages.length > 0);
  await eventually(() => others.ids.length === 1);
  expect(collected.ids).toHaveLength(1);
});
