/** Relays that are killed at named points (B4), and what the next one makes of it. */

import { expect, test } from "vitest";

import { eventually } from "../support/index.ts";
import { enqueue, isDrained, openTransaction, startHouse } from "./support.ts";

const jobs = 300;
const page = 50;

/** What was seen at the queue of jobs 0 to 299, of which a relay was killed in the middle. */
interface Aftermath {
  readonly missing: ReadonlySet<string>;
  /** Messages beyond one a job. */
  readonly repeated: number;
  /** Jobs whose first message came before that of an earlier one with the same key. */
  readonly outOfOrder: readonly number[];
}

async function killedAt(point: string, count: number): Promise<Aftermath> {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const ids = await enqueue(
    house.database.pool,
    Array.from({ length: jobs }, (_, n) => ({ payload: n, ordering_key: `key-${n % 7}` })),
  );

  const first = await house.spawnRelay({ options: { batchSize: page }, killAt: { point, count } });
  const exit = await first.exited;
  if (exit.signal !== "SIGKILL") throw new Error(`ended by ${exit.signal} ${exit.code}`);
  house.startRelay({ batchSize: page });
  await eventually(() => isDrained(house));
  await eventually(() => collected.ids.length === jobs);

  const place = new Map(ids.map((id, n) => [id, n]));
  const places = collected.ids.map((id) => place.get(id) ?? -1);
  return {
    missing: new Set(ids).difference(new Set(collected.ids)),
    repeated: collected.messages.length - jobs,
    outOfOrder: places.filter((n, at) => places.slice(0, at).some((m) => m > n && m % 7 === n % 7)),
  };
}

/** Nothing is missing or out of order, and no more is repeated than was on its way. */
const harmless = {
  missing: new Set(),
  repeated: expect.toSatisfy((count: number) => count <= 3 * page) as number,
  outOfOrder: [],
};

test("B4: a relay killed after it published and before the confirm loses nothing", async () => {
  expect(await killedAt("relay.afterPublish", 2)).toEqual(harmless);
});

test("B4: a relay killed after a confirm and before its page is settled loses nothing", async () => {
  expect(await killedAt("relay.afterConfirm", 120)).toEqual(harmless);
});

test("B4: a relay killed before it saves its position loses nothing", async () => {
  expect(await killedAt("relay.beforeSave", 1)).toEqual(harmless);
});

test("B4: a relay killed after it saved its position in the middle of a window loses nothing", async () => {
  expect(await killedAt("relay.afterSave", 1)).toEqual(harmless);
});

test("B4: a relay killed while its position is being saved loses nothing", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const first = await house.spawnRelay();
  const [before = ""] = await enqueue(house.database.pool, [{}]);
  await eventually(() => collected.ids.includes(before));
  await eventually(() => isDrained(house));

  // The save waits for this lock: what becomes of it is open when the relay dies.
  await using holder = await openTransaction(house.database.pool);
  await holder.client.query("select from waybill.relay for update");
  const ids = await enqueue(
    house.database.pool,
    Array.from({ length: 20 }, () => ({})),
  );
  await eventually(async () =>
    expect(
      await house.database.rows(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
           and query like '%window_snapshot =%'`,
      ),
    ).toHaveLength(1),
  );
  first.kill("SIGKILL");
  await first.exited;
  await holder.commit();
  house.startRelay();

  const [after = ""] = await enqueue(house.database.pool, [{}]);
  await eventually(() => collected.ids.includes(after));
  await eventually(() => isDrained(house));
  expect(new Set(collected.ids)).toEqual(new Set([before, ...ids, after]));
});

test("B4: a relay killed after it parked a message and before it passed it loses nothing and doubles no timer", async () => {
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
