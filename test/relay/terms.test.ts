/** Several relays: one works, another takes over, and none that was away can move anything. */

import { expect, test } from "vitest";

import { eventually } from "../support/index.ts";
import { enqueue, type House, isDrained, startHouse } from "./support.ts";

const termOf = async (house: House): Promise<{ epoch: string; holder_name: string | null }> => {
  const [row] = await house.database.rows<{ epoch: string; holder_name: string | null }>(
    "select epoch::text, case when lease_until > clock_timestamp() then holder_name end as holder_name from waybill.relay",
  );
  if (row === undefined) throw new Error("no relay row");
  return row;
};

const many = (count: number): Record<string, unknown>[] =>
  Array.from({ length: count }, () => ({}));

test("B3: of three relays one publishes, and without a fault nothing is published twice", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const relays = ["a", "b", "c"].map((name) => house.startRelay({ name, leaseMs: 1_000 }));
  await eventually(() => {
    expect(relays.map(({ it }) => it.status().state).sort()).toEqual([
      "leading",
      "standby",
      "standby",
    ]);
  });

  for (let n = 0; n < 10; n += 1) await enqueue(house.database.pool, many(20));

  await eventually(() => isDrained(house));
  await eventually(() => collected.ids.length === 200);
  expect(collected.messages).toHaveLength(200);
  expect((await termOf(house)).epoch).toBe("1");
});

test("a relay that stops hands its term over at once", async () => {
  await using house = await startHouse();
  const first = house.startRelay({ name: "first", leaseMs: 60_000 });
  await eventually(() => first.it.status().state === "leading");
  const second = house.startRelay({ name: "second", leaseMs: 60_000 });
  await eventually(() => second.it.status().state === "standby");

  await first.stop();

  await eventually(() => second.it.status().state === "leading");
  expect(first.it.status().state).toBe("stopped");
  expect(await termOf(house)).toEqual({ epoch: "2", holder_name: "second" });
});

test("B4: when the working relay is killed, another takes its term over and publishes the rest", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const first = await house.spawnRelay({ name: "first" });
  await eventually(async () => (await termOf(house)).holder_name === "first");
  const second = house.startRelay({ name: "second" });
  await eventually(() => second.it.status().state === "standby");
  await enqueue(house.database.pool, many(500));

  first.kill("SIGKILL");
  const late = await enqueue(house.database.pool, many(100));

  await eventually(async () => (await termOf(house)).holder_name === "second");
  await eventually(() => isDrained(house));
  await eventually(() => collected.ids.length === 600);
  expect(new Set(collected.ids).isSupersetOf(new Set(late))).toBe(true);
});

test("B5: a relay frozen beyond its lease moves nothing when it wakes up, and stands by", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const frozen = await house.spawnRelay({
    name: "frozen",
    options: { leaseMs: 1_000, batchSize: 20 },
  });
  await eventually(async () => (await termOf(house)).holder_name === "frozen");
  await enqueue(house.database.pool, many(200));
  await eventually(() => collected.ids.length > 20);
  frozen.kill("SIGSTOP");
  const other = house.startRelay({ name: "other", leaseMs: 1_000 });
  await eventually(() => other.it.status().state === "leading");
  await enqueue(house.database.pool, many(50));
  await eventually(() => isDrained(house));
  const before = await house.database.rows("select snapshot::text, epoch from waybill.relay");

  frozen.kill("SIGCONT");
  await frozen.waitForLine("standing by");

  expect(await termOf(house)).toEqual({ epoch: "2", holder_name: "other" });
  const [now] = await house.database.rows<{ ahead: boolean }>(
    "select pg_snapshot_xmax(snapshot) >= pg_snapshot_xmax($1::pg_snapshot) as ahead from waybill.relay",
    [before[0]?.["snapshot"]],
  );
  expect(now?.ahead).toBe(true);
  await eventually(() => collected.ids.length === 250);
});

test("B5: a relay whose term was taken away stops publishing and does not fail", async () => {
  await using house = await startHouse();
  const relay = house.startRelay({ leaseMs: 1_000 });
  await eventually(() => relay.it.status().state === "leading");

  await house.database.rows(
    "update waybill.relay set epoch = epoch + 1, lease_until = clock_timestamp() + interval '2 seconds', holder_name = 'thief'",
  );

  await eventually(() => relay.it.status().state === "standby");
  await eventually(() => relay.it.status().state === "leading");
  expect((await termOf(house)).epoch).toBe("3");
});
