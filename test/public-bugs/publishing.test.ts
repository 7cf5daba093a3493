/** Reports on publishing, as docs/reliability.md numbers them: outcomes, order, several relays. */

import { setTimeout as delay } from "node:timers/promises";
import { defineJob } from "@waybill/core";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  enqueue,
  type House,
  inTransaction,
  isDrained,
  openTransaction,
  startHouse,
} from "../relay/support.ts";
import { eventually, startProcess, startProxy, type TestProcess } from "../support/index.ts";
import { type Line, startLine } from "../support/line.ts";
import { randomFrom, seedOf } from "../support/random.ts";
import type { SignalAt } from "../support/relay-process.ts";

const relayProcess = new URL("../support/relay-process.ts", import.meta.url);
const fifty = (): Record<string, unknown>[] => Array.from({ length: 50 }, () => ({}));

test("A01: rows whose connection is reset before any confirm are published again, and a relay stops in the middle of such a silence", async () => {
  await using house = await startHouse();
  await using proxy = await startProxy(house.vhost.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const { prefix } = house.vhost;
  const relay = house.startRelay({
    graceMs: 500,
    broker: { url: proxy.url(house.vhost.url), prefix },
  });
  await enqueue(house.database.pool, [{}]);
  await eventually(() => isDrained(house));

  proxy.blackHole("in");
  const reset = await enqueue(house.database.pool, fifty());
  await eventually(() => relay.it.status().unsettled === 50 && collected.ids.length === 51);
  proxy.pass();
  proxy.cut();
  await eventually(() => relay.it.status().published === 51);
  proxy.blackHole("in");
  const silent = await enqueue(house.database.pool, fifty());
  await eventually(() => relay.it.status().unsettled === 50 && collected.ids.length === 101);
  await relay.stop();

  // Nobody has confirmed the last fifty: they are not passed over.
  expect(await isDrained(house)).toBe(false);
  house.startRelay();
  await eventually(() => isDrained(house));
  const copies = new Map<string, number>();
  for (const { id } of collected.messages) copies.set(id, (copies.get(id) ?? 0) + 1);
  expect([...reset, ...silent].filter((id) => (copies.get(id) ?? 0) < 2)).toEqual([]);
});

test("A05, B3, J5: with three relays, slow links and kills, each key's jobs are published in the order of their commits", async () => {
  const seed = seedOf("A05");
  const random = randomFrom(seed);
  await using house = await startHouse({ database: { poolSize: 20 } });
  await using proxy = await startProxy(house.vhost.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const { prefix } = house.vhost;
  const broker = { url: proxy.url(house.vhost.url), prefix };
  await using stack = new AsyncDisposableStack();
  const relays = new Map<string, TestProcess>();
  const spawn = async (): Promise<void> => {
    const name = `relay-${relays.size + 1}`;
    const { logger: _, ...options } = house.relayOptions({ broker, name, batchSize: 50 });
    relays.set(name, stack.use(await startProcess(relayProcess, [JSON.stringify(options)])));
  };
  for (let n = 0; n < 3; n += 1) await spawn();
  await house.database.rows("create table account (name text primary key, version int)");
  await house.database.rows(
    "insert into account select 'key-' || n, 0 from generate_series(0, 3) as n",
  );
  const committed = new Map<string, string[]>();
  const transaction = async (): Promise<void> => {
    const key = `key-${Math.floor(random() * 4)}`;
    await inTransaction(house.database.pool, async (client) => {
      // Takes its transaction id before it waits for the key: ids and commits differ in order.
      const early = random() < 0.5 ? await enqueue(client, [{ ordering_key: "early" }]) : [];
      await client.query("update account set version = version + 1 where name = $1", [key]);
      const own = Array.from({ length: 5 }, () => ({ ordering_key: key }));
      const ids = await enqueue(client, own);
      // The lock is held until the commit, so this order is the order of the commits.
      committed.set(key, [...(committed.get(key) ?? []), ...ids]);
      committed.set("early", [...(committed.get("early") ?? []), ...early]);
      await delay(random() * 10);
    });
  };

  const over = new AbortController();
  const writing = Promise.all(
    Array.from({ length: 6 }, async () => {
      while (!over.signal.aborted) {
        await transaction();
        await delay(random() * 60);
      }
    }),
  );
  for (let kill = 0; kill < 3; kill += 1) {
    proxy.slow(Math.floor(random() * 30));
    const seen = collected.ids.length;
    await eventually(() => collected.ids.length > seen + 20, { deadlineMs: 25_000 });
    const leader = await eventually(() => leaderOf(house));
    relays.get(leader)?.kill("SIGKILL");
    await spawn();
  }
  proxy.pass();
  over.abort();
  await writing;
  await eventually(() => isDrained(house));

  const all = [...committed.values()].flat();
  await eventually(() => expect(collected.ids).toHaveLength(all.length));
  const place = new Map(collected.ids.map((id, n) => [id, n]));
  committed.delete("early");
  for (const [key, ids] of committed) {
    const places = ids.map((id) => place.get(id));
    expect(places, `${key}, seed ${seed}`).toEqual(places.toSorted((a, b) => (a ?? 0) - (b ?? 0)));
  }
}, 60_000);

/** Name of the relay that holds the term, or "". */
async function leaderOf(house: House): Promise<string> {
  const [row] = await house.database.rows<{ name: string }>(
    "select holder_name as name from waybill.relay where lease_until > clock_timestamp()",
  );
  return row?.name ?? "";
}

const work = defineJob({ name: "work", queue: "work", payload: z.object({ n: z.int() }) });

test("A06: neither a transaction that stays open nor a relay frozen between publishing and saving doubles an effect", async () => {
  await using line = await startLine();
  const { pool } = line.database;
  await pool.query("create table effect (job_id uuid not null)");
  line.startWorker(["work"], (worker) =>
    worker.handleInTransaction(work, async (job, tx) => {
      await tx.query("insert into effect values ($1)", [job.id]);
    }),
  );
  await using open = await openTransaction(pool);
  const late = await line.outbox.enqueue(open.client as PoolClient, work, { n: 0 });
  const options = {
    databaseUrl: line.database.url,
    broker: { url: line.vhost.url, prefix: line.vhost.prefix },
    leaseMs: 500,
  };
  const freeze: SignalAt = { point: "relay.beforeSave", count: 1, signal: "SIGSTOP" };
  await line.transaction((tx) =>
    line.outbox.enqueueMany(
      tx,
      work,
      Array.from({ length: 20 }, (_, n) => ({ payload: { n } })),
    ),
  );

  // Publishes twenty jobs and freezes with the confirms in its hands.
  await using frozen = await startProcess(relayProcess, [
    JSON.stringify({ ...options, name: "frozen" }),
    JSON.stringify(freeze),
  ]);
  await eventually(async () => expect(await endedJobs(line)).toBe(20));
  const other = line.startRelay({ name: "other", leaseMs: 500 });
  await eventually(() => other.it.status().state === "leading");
  await eventually(() => other.it.status().published === 20);
  expect(await line.database.rows("select from waybill.inbox where id = $1", [late.jobId])).toEqual(
    [],
  );
  await open.commit();
  await eventually(async () => expect(await endedJobs(line)).toBe(21));
  frozen.kill("SIGCONT");
  await frozen.waitForLine("standing by");

  await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 22 }));
  await eventually(async () => expect(await endedJobs(line)).toBe(22));
  const doubled = await line.database.rows(
    "select job_id from effect group by job_id having count(*) <> 1",
  );
  expect(doubled).toEqual([]);
  expect(other.it.status().state).toBe("leading");
});

const endedJobs = async (line: Line): Promise<number> => (await line.jobs.counts()).total.succeeded;
