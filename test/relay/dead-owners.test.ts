/** What a dead worker owned starts elsewhere: leases, running jobs, and relays that die on the way. */

import { createRelayStore } from "@waybill/postgres";
import { expect, test } from "vitest";

import { eventually } from "../support/index.ts";
import { enqueue, type House, openTransaction, startHouse } from "./support.ts";

/** Boot ids by number. */
const bootId = (n: number): string => `01890000-0000-7000-8000-${String(n).padStart(12, "0")}`;

/** A worker's row, written by hand. */
interface WorkerRow {
  readonly id: string;
  readonly leaseMs: number;
  readonly lockKey?: string | undefined;
  readonly running?: number | undefined;
  /** Relative to now. */
  readonly sweptMs?: number | undefined;
}

async function addWorkers(house: House, ...workers: readonly WorkerRow[]): Promise<void> {
  await house.database.rows(
    `insert into waybill.worker (id, name, host, pid, version, queues, lock_key, lease_until, running, swept_at)
     select w.id, 'w', 'h', 1, '1', '{email}', w."lockKey", clock_timestamp() + w."leaseMs" * interval '1 millisecond',
       coalesce(w.running, 1), clock_timestamp() + w."sweptMs" * interval '1 millisecond'
     from jsonb_to_recordset($1::jsonb) as w (id uuid, "lockKey" bigint, "leaseMs" integer, running integer, "sweptMs" integer)`,
    [JSON.stringify(workers)],
  );
}

/** Jobs that a worker runs, their first dispatch in the outbox; in the order of the owners. */
async function addRunning(
  house: House,
  owners: readonly string[],
  options: { readonly startedMs?: number; readonly ageMs?: number } = {},
): Promise<readonly string[]> {
  const ids = await enqueue(
    house.database.pool,
    owners.map((payload) => ({
      payload,
      ...(options.ageMs === undefined ? {} : { id: idOf(Date.now() - options.ageMs) }),
    })),
  );
  await house.database.rows(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, owner, started_at)
     select id, 'email', 't', 'running', 1, 1, owner, clock_timestamp() - $3 * interval '1 millisecond'
     from unnest($1::uuid[], $2::uuid[]) as u (id, owner)`,
    [ids, owners, options.startedMs ?? 0],
  );
  return ids;
}

/** A UUIDv7 of that time. */
function idOf(ms: number): string {
  const hex = ms.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${crypto.randomUUID().slice(24)}`;
}

/** Gives running jobs a lease, as a worker does that acks their deliveries. */
async function hold(house: House, ids: readonly string[]): Promise<void> {
  await house.database.rows(
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, owner, type, payload)
     select i.id, i.queue, i.dispatch + 1, 'infinity', 'lease', i.owner, i.type, '"held"'
     from waybill.inbox as i where i.id = any ($1::uuid[])`,
    [ids],
  );
}

/** Jobs that were dispatched again, in the order of their ids: a row each time. */
async function again(house: House): Promise<readonly string[]> {
  const rows = await house.database.rows<{ id: string }>(
    "select id from waybill.outbox where kind = 'job' and dispatch > 1 order by id",
  );
  return rows.map(({ id }) => id);
}

async function isSwept(house: House, worker: string): Promise<boolean> {
  const [row] = await house.database.rows<{ swept: boolean }>(
    "select swept_at >= lease_until as swept from waybill.worker where id = $1",
    [worker],
  );
  return row?.swept === true;
}

const [over, crashed, missing, living, pooled] = [1, 2, 3, 4, 5].map(bootId) as [
  string,
  string,
  string,
  string,
  string,
];

test("a job without a delivery is dispatched again when its owner's lease is over, its lock gone or its row missing, and never from a living owner", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  await using session = await openTransaction(house.database.pool);
  const lockKey = "-1234567890123456789";
  await session.client.query("select pg_advisory_lock($1::bigint)", [lockKey]);
  await addWorkers(
    house,
    { id: over, leaseMs: -1_000, lockKey },
    { id: crashed, leaseMs: 600_000, lockKey: "42" },
    { id: living, leaseMs: 600_000, lockKey },
    { id: pooled, leaseMs: 600_000 },
  );
  const ids = await addRunning(house, [over, crashed, missing, living, pooled]);
  await hold(house, ids);

  house.startRelay();

  await eventually(async () => expect(await again(house)).toEqual(ids.slice(0, 3).toSorted()));
  await eventually(() =>
    expect(
      collected.messages.filter(({ headers }) => headers["waybill-dispatch"] === 2),
    ).toHaveLength(3),
  );
  const leases = "select id, owner, reason from waybill.timer order by owner";
  expect(await house.database.rows(leases)).toEqual([
    { id: ids[3], owner: living, reason: "lease" },
    { id: ids[4], owner: pooled, reason: "lease" },
  ]);

  await session.client.query("select pg_advisory_unlock($1::bigint)", [lockKey]);

  await eventually(async () => expect(await again(house)).toEqual(ids.slice(0, 4).toSorted()));
  expect(await house.database.rows(leases)).toEqual([
    { id: ids[4], owner: pooled, reason: "lease" },
  ]);
});

test("a worker whose session lock went with a restart of the server keeps its leases until its next heartbeat", async () => {
  await using house = await startHouse();
  const store = createRelayStore(house.database.pool);
  await addWorkers(house, { id: crashed, leaseMs: 600_000, lockKey: "42" });
  await hold(house, await addRunning(house, [crashed]));
  const isAlive = async (): Promise<unknown> => {
    const [row] = await house.database.rows("select waybill.worker_alive($1) as alive", [crashed]);
    return row?.["alive"];
  };

  await house.database.rows(
    "update waybill.worker set heartbeat_at = pg_postmaster_start_time() - interval '1 second'",
  );
  expect(await store.fireLeases(10, [crashed])).toEqual({ jobs: 0, missing: [] });
  expect(await isAlive()).toBe(true);

  await house.database.rows("update waybill.worker set heartbeat_at = clock_timestamp()");
  expect(await isAlive()).toBe(false);
  expect(await store.fireLeases(10, [])).toEqual({ jobs: 0, missing: [crashed] });
  expect(await store.fireLeases(10, [crashed])).toEqual({ jobs: 1, missing: [crashed] });
});

test("running jobs of a worker whose lease is over are dispatched again once; of one that has only crashed the broker brings them back", async () => {
  await using house = await startHouse();
  await house.declare("email");
  await addWorkers(
    house,
    { id: over, leaseMs: -1_000 },
    { id: crashed, leaseMs: 600_000, lockKey: "42" },
    { id: living, leaseMs: 600_000 },
  );
  const frozen = await addRunning(house, [over, over]);
  await addRunning(house, [crashed, living, missing]);
  const [waiting = ""] = await addRunning(house, [over]);
  await house.database.rows(
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, type, payload)
     values ($1, 'email', 1, now() + interval '1 hour', 'held', 't', '{}')`,
    [waiting],
  );
  // Only the broker has the envelope of a foreign message.
  await house.database.rows(
    `insert into waybill.inbox (id, queue, type, state, dispatch, owner, started_at)
     values (gen_random_uuid(), 'email', 't', 'running', 1, $1, now())`,
    [over],
  );
  const gone = await addRunning(house, [missing], { startedMs: 120_000 });

  const relay = house.startRelay();
  await eventually(() => isSwept(house, over));
  await relay.stop();
  const next = house.startRelay();
  await eventually(() => next.it.status().state === "leading");
  // Its own sweep, and proof that the next relay has looked.
  await addWorkers(house, { id: pooled, leaseMs: -1 });
  await eventually(() => isSwept(house, pooled));

  expect(await again(house)).toEqual([...frozen, ...gone].toSorted());
  expect(await isSwept(house, crashed)).toBe(false);
  expect(await isSwept(house, living)).toBe(false);
});

test("an old job of a frozen worker is found too, if the worker said that it ran any", async () => {
  await using house = await startHouse();
  house.startRelay();
  // The first look of a term is at everything.
  await addWorkers(house, { id: pooled, leaseMs: -1 });
  await eventually(() => isSwept(house, pooled));
  const [old = ""] = await addRunning(house, [over], { ageMs: 5 * 86_400_000 });
  expect(await again(house)).toEqual([]);

  await addWorkers(house, { id: over, leaseMs: -1 });

  await eventually(async () => expect(await again(house)).toEqual([old]));
});

test("a job that a worker took after its last heartbeat is found though the worker said that it ran none", async () => {
  await using house = await startHouse();
  house.startRelay();
  await addWorkers(house, { id: pooled, leaseMs: -1 });
  await eventually(() => isSwept(house, pooled));
  const [late = ""] = await addRunning(house, [over]);

  await addWorkers(house, { id: over, leaseMs: -1, running: 0 });

  await eventually(async () => expect(await again(house)).toEqual([late]));
});

test("a worker that renewed its lease while it was taken for dead is swept again when it dies", async () => {
  await using house = await startHouse();
  const [id = ""] = await addRunning(house, [over]);
  await addWorkers(house, { id: over, leaseMs: -500, sweptMs: -10_000 });

  house.startRelay();

  await eventually(async () => expect(await again(house)).toEqual([id]));
  await eventually(() => isSwept(house, over));
});

test("a lease whose job its owner is just ending is left to the owner, and keeps no other waiting", async () => {
  await using house = await startHouse();
  const [ending = "", other = ""] = await addRunning(house, [missing, missing]);
  await hold(house, [ending, other]);
  await using owner = await openTransaction(house.database.pool);
  await owner.client.query("delete from waybill.timer where id = $1", [ending]);
  await owner.client.query("update waybill.inbox set state = 'succeeded' where id = $1", [ending]);

  house.startRelay();

  await eventually(async () => expect(await again(house)).toEqual([other]));
  await owner.commit();
  await addWorkers(house, { id: over, leaseMs: 600_000 });
  const [last = ""] = await addRunning(house, [over]);
  await hold(house, [last]);
  // Only now: a dead owner's job that has no lease row yet is dispatched as well.
  await house.database.rows("update waybill.worker set lease_until = now() where id = $1", [over]);
  await eventually(async () => expect(await again(house)).toContain(last));
  expect(await again(house)).toEqual([other, last].toSorted());
});

test("two looks at the same time let each lease fire once", async () => {
  await using house = await startHouse();
  const ids = await addRunning(
    house,
    Array.from({ length: 400 }, (_, n) => bootId(n % 7)),
  );
  await hold(house, ids);
  const store = createRelayStore(house.database.pool);

  const fired = await Promise.all([1, 2, 3, 4].map(() => store.fireLeases(1_000, [])));
  const late = await store.fireLeases(1_000, []);

  expect([...fired, late].reduce((sum, { jobs }) => sum + jobs, 0)).toBe(400);
  expect(
    await house.database.rows(
      "select from waybill.timer where reason <> 'held' or owner is not null or fire_at > clock_timestamp()",
    ),
  ).toEqual([]);
});

test("more leases than fit into one look fire one batch after the other", async () => {
  await using house = await startHouse();
  const ids = await addRunning(house, Array<string>(2_500).fill(missing));
  await hold(house, ids);

  house.startRelay();

  await eventually(async () => expect(await again(house)).toHaveLength(2_500));
});

test.each([
  ["after leases have fired", "relay.afterLeases"],
  ["before it marks the workers", "relay.beforeSwept"],
])("a relay that is killed %s leaves no job behind and doubles none", async (_when, point) => {
  await using house = await startHouse();
  await house.declare("email");
  await addWorkers(house, { id: over, leaseMs: -1_000 });
  const [held = "", running = ""] = await addRunning(house, [over, over]);
  await hold(house, [held]);
  const victim = await house.spawnRelay({ killAt: { point, count: 1 } });
  await victim.exited;

  house.startRelay();

  await eventually(async () => expect(await again(house)).toEqual([held, running].toSorted()));
  await eventually(() => isSwept(house, over));
  expect(await again(house)).toEqual([held, running].toSorted());
});
