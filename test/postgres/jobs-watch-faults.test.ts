/** The listener, or the database, fails while jobs are watched; and how many statements watching takes. */

import { type Database, pgDatabase, statementsFor } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { createPool, eventually, startProxy } from "../support/index.ts";
import { type Application, setInbox, startApplication } from "./application.ts";
import { startDeafWay } from "./deaf-way.ts";
import {
  enqueue,
  follow,
  type Followed,
  listeners,
  listenerTo,
  report,
  succeed,
  tell,
  type WatchedJobs,
  watchedJobs,
} from "./watching.ts";

const statements = statementsFor();
const listening = "listening for changes of watched jobs";
const lost = "listener for watched jobs lost, polling";
const deaf = "notifications do not reach this process, polling";

/** How often something was said. */
const times = ({ said }: WatchedJobs, message: string): number =>
  said.filter((one) => one === message).length;

/** A watch of a job that somebody is asked to tell of. */
async function watchOne(
  app: Application,
  watched: WatchedJobs,
): Promise<Followed & { readonly id: string }> {
  const id = await enqueue(app);
  const followed = follow(watched.jobs.watch(id));
  await eventually(() => followed.seen.length === 1);
  return { id, ...followed };
}

/** A database that keeps what was read: the ids of each read_watched, and how many ran at once. */
function countingDatabase(inner: Database<PoolClient>): {
  readonly database: Database<PoolClient>;
  readonly reads: (readonly string[])[];
  readonly atOnceMost: () => number;
} {
  const reads: (readonly string[])[] = [];
  let atOnce = 0;
  let most = 0;
  const database: Database<PoolClient> = {
    transaction: (work) => inner.transaction(work),
    executor(tx) {
      const executor = inner.executor(tx);
      return {
        async query(text, params) {
          if (text !== statements.read_watched.text) return await executor.query(text, params);
          reads.push(JSON.parse(params[0] ?? "[]") as string[]);
          atOnce += 1;
          most = Math.max(most, atOnce);
          try {
            return await executor.query(text, params);
          } finally {
            atOnce -= 1;
          }
        },
      };
    },
  };
  return { database, reads, atOnceMost: () => most };
}

test("300 watches of a process share one connection that listens and one statement a round", async () => {
  await using app = await startApplication();
  const { database, reads, atOnceMost } = countingDatabase(pgDatabase(app.pool));
  const watched = watchedJobs(app, { database });
  const ids = await Promise.all(Array.from({ length: 300 }, () => enqueue(app)));

  const all = ids.map((id) => follow(watched.jobs.watch(id)));
  await eventually(() => all.every(({ seen }) => seen.length === 1));
  await eventually(async () => (await app.count("waybill.watch")) === 300);
  const readsToBegin = reads.length;
  const connections = await listeners(app);
  await app.pool.query(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, finished_at)
     select id, 'tests', 'test.any', 'succeeded', 1, 1, now() from unnest($1::uuid[]) as id`,
    [ids],
  );
  await tell(app, ...ids);
  await Promise.all(all.map(({ ended }) => ended));

  expect(all.every(({ seen }) => seen.at(-1)?.state === "succeeded")).toBe(true);
  expect(connections).toHaveLength(1);
  expect(reads[0]).toHaveLength(300);
  // A watch each would have been 300.
  expect(readsToBegin).toBeLessThan(100);
  expect(reads.length).toBeLessThan(200);
  expect(atOnceMost()).toBe(1);
  await eventually(async () => (await app.count("waybill.watch")) === 0);
});

test("a job that workers tell of is read alone, not with all that are watched", async () => {
  await using app = await startApplication();
  const { database, reads } = countingDatabase(pgDatabase(app.pool));
  const watched = watchedJobs(app, { database });
  const one = await watchOne(app, watched);
  const other = await watchOne(app, watched);
  await eventually(async () => (await app.count("waybill.watch")) === 2);

  const readsOf = (id: string): number => reads.filter((ids) => ids.includes(id)).length;

  const [oneBefore, otherBefore] = [readsOf(one.id), readsOf(other.id)];
  for (let done = 1; done <= 10; done += 1) {
    await report(app, one.id, done);
    await eventually(() => expect(one.seen.at(-1)?.progress?.done).toBe(done));
  }

  const readsOfOther = readsOf(other.id) - otherBefore;
  expect(readsOf(one.id) - oneBefore).toBeGreaterThan(readsOfOther + 4);
  await succeed(app, one.id);
  await succeed(app, other.id);
  await Promise.all([one.ended, other.ended]);
});

test("B8: when the listener of watches dies they poll, miss nothing, and listen again", async () => {
  await using app = await startApplication();
  const watched = watchedJobs(app);
  const { id, seen, ended } = await watchOne(app, watched);
  await eventually(() => times(watched, listening) === 1);
  const [pid] = await listeners(app);

  await app.pool.query("select pg_terminate_backend($1)", [pid]);
  await setInbox(app, id, "running");

  await eventually(() => expect(seen.at(-1)?.state).toBe("running"));
  await eventually(() => times(watched, listening) === 2);
  expect(times(watched, lost)).toBe(1);
  const [again] = await listeners(app);
  expect(again).not.toBe(pid);
  await succeed(app, id);
  expect(await ended).toBeUndefined();
});

test("B8: a listener whose connection is half-open is noticed, and opened again", async () => {
  await using app = await startApplication();
  await using proxy = await startProxy(app.db.url);
  const watched = watchedJobs(app, { listener: listenerTo(proxy.url(app.db.url)) });
  const { id, seen, ended } = await watchOne(app, watched);
  await eventually(() => times(watched, listening) === 1);

  proxy.blackHole();
  await report(app, id, 1);

  await eventually(() => expect(seen.at(-1)?.progress?.done).toBe(1));
  await eventually(() => times(watched, lost) === 1);
  proxy.pass();
  await eventually(() => times(watched, listening) === 2);
  await succeed(app, id);
  expect(await ended).toBeUndefined();
});

test("a connection on which nothing is heard is found out, said once, and replaced by polling", async () => {
  await using app = await startApplication();
  await using way = await startDeafWay(app.db.url);
  const watched = watchedJobs(app, { listener: listenerTo(way.url) });
  const { id, seen, ended } = await watchOne(app, watched);

  await eventually(() => times(watched, deaf) === 1);
  await report(app, id, 1);

  await eventually(() => expect(seen.at(-1)?.progress?.done).toBe(1));
  // Nobody is asked to tell of what nobody would hear.
  expect(await app.count("waybill.watch")).toBe(0);
  await succeed(app, id);
  expect(await ended).toBeUndefined();
  expect(watched.said).toEqual([deaf]);
});

test("without a listener watches poll, and ask nobody to tell", async () => {
  await using app = await startApplication();
  const watched = watchedJobs(app, { listener: undefined });
  const { id, seen, ended } = await watchOne(app, watched);

  await setInbox(app, id, "running");
  await eventually(() => expect(seen.at(-1)?.state).toBe("running"));
  expect(await app.count("waybill.watch")).toBe(0);
  await succeed(app, id);

  expect(await ended).toBeUndefined();
});

test("a database that is away for a while ends no watch, old or new", async () => {
  await using app = await startApplication();
  await using proxy = await startProxy(app.db.url);
  const url = proxy.url(app.db.url);
  const pool = createPool(url);
  const watched = watchedJobs(app, { database: pgDatabase(pool), listener: listenerTo(url) });
  const old = await watchOne(app, watched);
  const id = await enqueue(app);

  proxy.refuse();
  const fresh = follow(watched.jobs.watch(id));
  await succeed(app, old.id, "1");
  await succeed(app, id, "2");
  await eventually(() => times(watched, "watched jobs cannot be read, trying again") > 0);
  proxy.pass();

  expect(await old.ended).toBeUndefined();
  expect(await fresh.ended).toBeUndefined();
  expect(old.seen.at(-1)).toMatchObject({ state: "succeeded", result: "1" });
  expect(fresh.seen).toMatchObject([{ state: "succeeded", result: "2" }]);
  await pool.end();
});

test("a read that gets no answer is given up, and another connection reads", async () => {
  await using app = await startApplication();
  await using proxy = await startProxy(app.db.url);
  const pool = createPool(proxy.url(app.db.url), 3);
  const watched = watchedJobs(app, { database: pgDatabase(pool), listener: undefined });
  const { id, ended } = await watchOne(app, watched);

  proxy.blackHole();
  await eventually(() => times(watched, "watched jobs cannot be read, trying again") > 0);
  proxy.pass();
  await succeed(app, id);

  expect(await ended).toBeUndefined();
  proxy.cut();
  await pool.end();
});

test("A36: after the pool was exhausted and the listener killed, changes are told again", async () => {
  await using app = await startApplication();
  const pool = createPool(app.db.url, 3);
  const watched = watchedJobs(app, { database: pgDatabase(pool) });
  const { id, seen, ended } = await watchOne(app, watched);
  await eventually(() => times(watched, listening) === 1);

  const taken = await Promise.all([pool.connect(), pool.connect(), pool.connect()]);
  const [pid] = await listeners(app);
  await app.pool.query("select pg_terminate_backend($1)", [pid]);
  await setInbox(app, id, "running");
  await eventually(async () => {
    const [again] = await listeners(app);
    return again !== undefined && again !== pid;
  });
  expect(times(watched, listening)).toBe(1);
  for (const client of taken) client.release();

  await eventually(() => times(watched, listening) === 2);
  expect(times(watched, deaf)).toBe(0);
  await eventually(() => expect(seen.at(-1)?.state).toBe("running"));
  await eventually(async () => (await app.count("waybill.watch")) === 1);
  await succeed(app, id);
  expect(await ended).toBeUndefined();
  await pool.end();
});

test("a watch is renewed, and a row of it that was lost comes back", async () => {
  await using app = await startApplication();
  const watched = watchedJobs(app);
  const one = await watchOne(app, watched);
  const other = await watchOne(app, watched);
  await eventually(async () => (await app.count("waybill.watch")) === 2);
  const [first] = await app.db.rows<{ at: Date }>(
    "select lease_until as at from waybill.watch where id = $1",
    [one.id],
  );
  await app.pool.query("delete from waybill.watch where id = $1", [other.id]);

  await eventually(
    async () => {
      const [now] = await app.db.rows<{ at: Date }>(
        "select lease_until as at from waybill.watch where id = $1",
        [one.id],
      );
      expect(now?.at.getTime()).toBeGreaterThan(first?.at.getTime() ?? Infinity);
      expect(await app.count("waybill.watch")).toBe(2);
    },
    { deadlineMs: 60_000 },
  );

  await succeed(app, one.id);
  await succeed(app, other.id);
  await Promise.all([one.ended, other.ended]);
  await eventually(async () => (await app.count("waybill.watch")) === 0);
});
