import {
  createFlowStore,
  createGovernorStore,
  createRelayStore,
  type FlowStore,
} from "@waybill/postgres";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { createMigratedDatabase, eventually, type TestDatabase } from "../support/index.ts";
import { addWorker } from "../support/worker-row.ts";
import { type Answer, Fleet } from "./support/fleet.ts";

interface Setup extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly store: FlowStore;
  readonly fleet: Fleet;
}

/** A database whose relay leads term 1. */
async function setUp(): Promise<Setup> {
  const database = await createMigratedDatabase();
  await database.rows("update waybill.relay set epoch = 1");
  return {
    database,
    store: createFlowStore(database.pool),
    fleet: new Fleet(database),
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

/** A worker with its row, written by hand; ids are in the order of their numbers. */
async function plant(
  { database }: Setup,
  n: number,
  row: { concurrency: number; granted?: number; held?: number; worker?: Record<string, unknown> },
): Promise<string> {
  const id = `0000000${n}-0000-4000-8000-000000000000`;
  await addWorker(database, `w${n}`, { id, ...row.worker });
  await database.rows(
    "insert into waybill.worker_queue (worker, queue, concurrency, granted, held) values ($1, 'q', $2, $3, $4)",
    [id, row.concurrency, row.granted ?? null, row.held ?? 0],
  );
  return id;
}

const granted = async ({ database }: Setup): Promise<(number | null)[]> =>
  (
    await database.rows<{ granted: number | null }>(
      "select granted from waybill.worker_queue order by worker",
    )
  ).map((row) => row.granted);

test.each([
  [50, [100, 100], [25, 25]],
  [50, [10, 30], [10, 30]],
  [10, [20, 10, 10], [5, 2, 3]],
  [1, [5, 5, 5], [0, 0, 1]],
  [1, [40, 4], [1, 0]],
  [7, [1, 1, 1, 100], [0, 0, 0, 7]],
])("a limit of %i is shared by workers of %j as %j", async (limit, workers, shares) => {
  await using setup = await setUp();
  await setup.fleet.setLimit(limit);
  for (const [n, concurrency] of workers.entries()) await plant(setup, n, { concurrency });

  await setup.store.grant("1", []);

  expect(await granted(setup)).toEqual(shares);
});

test("a share is raised only into what nobody has or uses", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(10);
  await plant(setup, 1, { concurrency: 10, granted: 10, held: 8 });
  await plant(setup, 2, { concurrency: 10 });

  await setup.store.grant("1", []);
  const first = await granted(setup);
  await setup.database.rows("update waybill.worker_queue set held = 5 where held = 8");
  await setup.store.grant("1", []);

  expect(first).toEqual([5, 2]);
  expect(await granted(setup)).toEqual([5, 5]);
});

test("a worker that drains is granted nothing more, and keeps what it uses", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(10);
  await plant(setup, 1, { concurrency: 10, granted: 5, held: 3, worker: { state: "draining" } });
  await plant(setup, 2, { concurrency: 10, granted: 5, held: 5 });

  await setup.store.grant("1", []);

  expect(await granted(setup)).toEqual([0, 7]);
});

test("the share of a worker whose lease is over goes to the others a second later", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(10);
  const ago = (ms: number): { lease_until: Date } => ({ lease_until: new Date(Date.now() - ms) });
  await plant(setup, 1, { concurrency: 10, granted: 5, held: 5, worker: ago(300) });
  await plant(setup, 2, { concurrency: 10, granted: 5, held: 5 });

  await setup.store.grant("1", []);
  const soon = await granted(setup);
  await setup.database.rows(
    "update waybill.worker set lease_until = now() - interval '1.1 seconds' where name = 'w1'",
  );
  await setup.store.grant("1", []);

  expect(soon).toEqual([0, 5]);
  expect(await granted(setup)).toEqual([0, 10]);
});

test("the share of a worker whose lock is missing goes to the others once it was missing before", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(10);
  const lock = { lock_key: "4711" };
  const id = await plant(setup, 1, { concurrency: 10, granted: 5, held: 5, worker: lock });
  await plant(setup, 2, { concurrency: 10, granted: 5, held: 5 });
  const client = await setup.database.pool.connect();
  await client.query("select pg_advisory_lock(4711)");

  const held = await setup.store.grant("1", [id]);
  await client.query("select pg_advisory_unlock(4711)");
  const missing = await setup.store.grant("1", []);
  const before = await granted(setup);
  await setup.store.grant("1", missing.missing);
  client.release();

  expect(held).toEqual({ changed: 0, missing: [] });
  expect(missing).toEqual({ changed: 0, missing: [id] });
  expect(before).toEqual([5, 5]);
  expect(await granted(setup)).toEqual([0, 10]);
});

test("rows without a worker count for nothing, and are pruned", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(10);
  await plant(setup, 1, { concurrency: 10, granted: 10, held: 10 });
  await plant(setup, 2, { concurrency: 10 });
  await setup.database.rows("delete from waybill.worker where name = 'w1'");

  await setup.store.grant("1", []);
  const shares = await granted(setup);
  await createRelayStore(setup.database.pool).prune("workers", 60_000, 100);

  expect(shares).toEqual([0, 10]);
  expect(await granted(setup)).toEqual([10]);
});

test("a relay whose term is over grants nothing", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(10);
  await plant(setup, 1, { concurrency: 10 });

  await setup.store.grant("0", []);

  expect(await granted(setup)).toEqual([null]);
});

test("a limit that is taken away leaves no share behind", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(2);
  const worker = await setup.fleet.start(10);
  await setup.fleet.settle();
  const before = worker.queue.limit;

  await setup.fleet.setLimit(undefined);
  await setup.fleet.settle();

  expect([before, worker.queue.limit]).toEqual([2, 10]);
  expect(await granted(setup)).toEqual([null]);
});

test("a limit set where there was none gives the others nothing before it is seen", async () => {
  await using setup = await setUp();
  const first = await setup.fleet.start(10);
  await setup.fleet.settle();
  for (let n = 0; n < 8; n += 1) first.startJob();

  await setup.fleet.setLimit(4);
  const second = await setup.fleet.start(10);
  await second.look();
  await setup.fleet.grant();
  await second.look();
  second.startJob();

  expect(second.queue.running).toBe(0);
  expect(await setup.fleet.liars()).toEqual([]);
  await first.look();
  first.startJob();
  expect(first.queue.running).toBe(8);
  for (let n = 0; n < 8; n += 1) first.endJob();
  await setup.fleet.settle();
  expect([first.queue.limit, second.queue.limit]).toEqual([2, 2]);
});

test("living workers of each queue are counted with what they can run; those that drain are not", async () => {
  await using setup = await setUp();
  await plant(setup, 1, { concurrency: 10 });
  await plant(setup, 2, { concurrency: 5 });
  await plant(setup, 3, { concurrency: 7, worker: { state: "draining" } });
  await plant(setup, 4, { concurrency: 7, worker: { lease_until: new Date(0) } });

  expect(await createGovernorStore(setup.database.pool).capacity()).toEqual([
    { queue: "q", workers: 2, capacity: 15 },
  ]);
});

/** Carries out `first` in a transaction that commits only when `second` waits for it. */
async function inTurn(setup: Setup, first: string, second: () => Promise<unknown>): Promise<void> {
  const client = await setup.database.pool.connect();
  await client.query("begin");
  await client.query(first);
  const done = second();
  await eventually(async () => {
    const waiting = await setup.database.rows(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return waiting.length > 0;
  });
  await client.query("commit");
  await done;
  client.release();
}

test("a grant that meets a worker's own statement counts what it has just said", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(10);
  await plant(setup, 1, { concurrency: 10, granted: 5, held: 0 });
  await plant(setup, 2, { concurrency: 10, granted: 5, held: 5 });
  await plant(setup, 3, { concurrency: 10 });

  await inTurn(
    setup,
    "update waybill.worker_queue set granted = 0, held = 5 where held = 0 and granted = 5",
    () => setup.store.grant("1", []),
  );

  expect(await granted(setup)).toEqual([3, 3, 0]);
});

test("a worker that takes all because it saw no limit is too late where shares were granted meanwhile", async () => {
  await using setup = await setUp();
  const id = await plant(setup, 1, { concurrency: 10 });

  await inTurn(setup, "update waybill.worker_queue set granted = 2", async () => {
    expect(await setup.store.hold(id, [{ queue: "q", turn: "0", used: 0 }])).toEqual([
      { queue: "q", granted: 2, held: 2, turn: "1", free: false },
    ]);
  });
});

const answers: readonly Answer[] = [
  "comes",
  "comes",
  "is lost",
  "is lost, and the statement comes late",
];
const which = fc.nat({ max: 3 });
const step = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({ act: fc.constant("start" as const), n: fc.integer({ min: 1, max: 8 }) }),
  },
  { weight: 8, arbitrary: fc.record({ act: fc.constantFrom("run", "end", "late"), n: which }) },
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constant("look" as const),
      n: which,
      answer: fc.constantFrom(...answers),
    }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constantFrom("kill", "drain"), n: which }) },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant("limit" as const),
      n: fc.option(fc.integer({ min: 1, max: 10 })),
    }),
  },
  { weight: 4, arbitrary: fc.record({ act: fc.constantFrom("grant", "all at once"), n: which }) },
);

test("whatever workers and relays do, in whatever order, no more runs than the limit allows", async () => {
  await using setup = await setUp();
  const { database } = setup;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), async (steps) => {
      await database.rows("truncate waybill.worker, waybill.worker_queue, waybill.queue");
      const fleet = new Fleet(database);
      let limit: number | undefined = 5;
      await fleet.setLimit(limit);
      // What was in use when a limit was set may go on; nothing may come beside it.
      let most = limit;
      for (const taken of steps) {
        const worker = fleet.workers[(taken.n ?? 0) % Math.max(1, fleet.workers.length)];
        if (taken.act === "start") await fleet.start(taken.n);
        else if (taken.act === "limit") {
          limit = taken.n ?? undefined;
          await fleet.setLimit(limit);
          most = Math.max(limit ?? Number.POSITIVE_INFINITY, (await fleet.sums()).held);
        } else if (taken.act === "grant") await fleet.grant();
        else if (taken.act === "all at once") {
          const looks = fleet.workers.map((each) => each.look());
          await Promise.all([fleet.grant(), ...looks, fleet.grant()]);
        } else if (worker === undefined) continue;
        else if (taken.act === "run") for (let n = 0; n < 4; n += 1) worker.startJob();
        else if (taken.act === "end") for (let n = 0; n < 3; n += 1) worker.endJob();
        else if (taken.act === "late") await worker.comeLate();
        else if (taken.act === "kill") await fleet.kill(worker);
        else if (taken.act === "drain") await fleet.drain(worker);
        else if (taken.act === "look" && "answer" in taken) await worker.look(taken.answer);

        const { running, held } = await fleet.sums();
        most = Math.max(limit ?? Number.POSITIVE_INFINITY, Math.min(most, held));
        expect(await fleet.liars()).toEqual([]);
        expect(running).toBeLessThanOrEqual(most);
        expect(held).toBeLessThanOrEqual(most);
      }

      for (const each of fleet.workers) while (each.queue.running > 0) each.endJob();
      await fleet.settle();
      const open = fleet.workers.filter(({ queue }) => !queue.isShut);
      const able = open.reduce((sum, { queue }) => sum + queue.concurrency, 0);
      const places = open.reduce((sum, { queue }) => sum + queue.limit, 0);
      expect(places).toBe(Math.min(able, limit ?? able));
    }),
    { numRuns: 100 },
  );
});

test("a worker that comes back under another boot id begins with what it still runs, and nothing else", async () => {
  await using setup = await setUp();
  await setup.fleet.setLimit(5);
  const id = await addWorker(setup.database, "w");
  await setup.store.join(id, [{ queue: "q", concurrency: 10, held: 3 }]);

  await setup.store.grant("1", []);

  const { shares } = await setup.store.read(id, "0", ["q"]);
  expect(shares).toEqual([{ queue: "q", granted: 5, held: 3, turn: "0" }]);
});
