/** Messages that the broker loses while it stays up: every job still ends, and has its effect once. */

import { defineEvent, defineQueue } from "@waybill/core";
import { createAuditStore } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../../support/index.ts";
import { addWorker } from "../../support/worker-row.ts";
import { startLedger } from "./support.ts";

/** So that a test need not wait for as long as a worker may keep a delivery. */
const quick = { settleMs: 1_000 };

test("C10: 500 jobs whose messages an operator purges run within a minute, each once", async () => {
  await using ledger = await startLedger();
  ledger.line.startRelay();
  await ledger.startWorker();
  const ids = await ledger.enqueue(500);
  await ledger.ready(480);

  await ledger.purge();
  ledger.openGate();

  await ledger.endedOnce(ids);
  expect(await ledger.dispatchedAgain()).toBeGreaterThanOrEqual(480);
});

test("C10: jobs of a queue that is deleted run, and what had ended does not run again", async () => {
  await using ledger = await startLedger();
  const { database, vhost } = ledger.line;
  ledger.line.startRelay({}, quick);
  ledger.openGate();
  const first = await ledger.startWorker();
  const ended = await ledger.enqueue(30);
  await ledger.endedOnce(ended);
  await first.stop();
  const waiting = await ledger.enqueue(100);
  await ledger.ready(100);

  await vhost.management.request("DELETE", `/api/queues/${vhost.name}/${vhost.prefix}.work`);
  await ledger.startWorker();

  await ledger.endedOnce([...ended, ...waiting]);
  expect(await ledger.dispatchedAgain()).toBe(100);
  expect(await database.rows("select id from waybill.inbox where attempt <> 1")).toEqual([]);
});

test("C10: messages of a governed queue that are purged give their slots to nobody and come again", async () => {
  await using ledger = await startLedger();
  const { line } = ledger;
  const define = defineQueue({ name: "work", keys: {} });
  await line.database.rows("insert into waybill.queue (name, declared) values ('work', $1)", [
    JSON.stringify(define.settings),
  ]);
  // Takes nothing, so that what is dispatched to it stays in the queue.
  const idle = await addWorker(line.database, "idle", { queues: ["work"] });
  await line.database.rows(
    "insert into waybill.worker_queue (worker, queue, concurrency, held) values ($1, 'work', 20, 0)",
    [idle],
  );
  line.startRelay({}, quick);
  const ids = await ledger.enqueue(60);
  await ledger.ready(20);

  await ledger.purge();
  await line.database.rows("delete from waybill.worker_queue");
  ledger.openGate();
  await ledger.startWorker({ queues: { work: { concurrency: 5, define } } });

  await ledger.endedOnce(ids);
  expect(await ledger.dispatchedAgain()).toBeGreaterThanOrEqual(20);
  expect(await line.database.rows("select id from waybill.slot")).toEqual([]);
});

test("C10: a job that its worker has handed back runs, although its message is purged then", async () => {
  await using ledger = await startLedger();
  const { database } = ledger.line;
  ledger.line.startRelay({}, quick);
  const first = await ledger.startWorker({ graceMs: 100 });
  const ids = await ledger.enqueue(1);
  // It runs, and the auditor has passed it.
  await eventually(async () => {
    const passed = await database.rows(
      `select from waybill.audit as a, waybill.outbox as o, waybill.inbox as i
       where i.id = o.id and i.state = 'running' and pg_visible_in_snapshot(o.tx, a.since)`,
    );
    expect(passed).toHaveLength(1);
  });

  await first.stop();
  await ledger.ready(1);
  await ledger.purge();
  ledger.openGate();
  await ledger.startWorker();

  await ledger.endedOnce(ids);
});

const placed = defineEvent({ name: "order.placed", payload: z.object({ n: z.number() }) });

test("C10: events that are purged from one subscription reach it, and no other gets them twice", async () => {
  await using ledger = await startLedger();
  const { line } = ledger;
  const gate = Promise.withResolvers<void>();
  line.startRelay({}, quick);
  for (const subscription of ["billing", "mails"]) {
    const worker = line.startWorker([], (it) =>
      it.on(placed, { subscription }, async (event, tx) => {
        if (subscription === "billing") await gate.promise;
        await tx.query("insert into effect values ($1, $2)", [subscription, event.id]);
      }),
    );
    await eventually(() =>
      worker.it.status().queues.some(({ consumer }) => consumer === "consuming"),
    );
  }
  const ids = await line.transaction(async (tx) => {
    const receipts = [];
    for (let n = 0; n < 100; n += 1) receipts.push(await line.outbox.publish(tx, placed, { n }));
    return receipts.map(({ jobId }) => jobId);
  });
  await ledger.ready(70, "billing");

  await ledger.purge("billing");
  gate.resolve();

  const effects = async (subscription: string): Promise<readonly string[]> =>
    (
      await line.database.rows<{ id: string }>("select id from effect where queue = $1", [
        subscription,
      ])
    )
      .map(({ id }) => id)
      .toSorted();
  await eventually(async () => expect(await effects("billing")).toEqual(ids.toSorted()), {
    deadlineMs: 60_000,
  });
  expect(await effects("mails")).toEqual(ids.toSorted());
  const again = await line.database.rows(
    "select queue, dispatched from waybill.audit where queue = 'mails'",
  );
  expect(again).toEqual([{ queue: "mails", dispatched: "0" }]);
});

test("what is taken for lost by mistake costs one copy of each message, which runs nothing", async () => {
  await using ledger = await startLedger();
  const { line } = ledger;
  line.startRelay({}, quick);
  await ledger.startWorker();
  const ids = await ledger.enqueue(50);
  await ledger.ready(30);
  const store = createAuditStore(line.database.pool);
  await eventually(async () => (await line.database.rows("select from waybill.audit")).length > 0);
  const [relay] = await line.database.rows<{ epoch: string }>("select epoch from waybill.relay");

  await store.takeForLost(relay?.epoch ?? "", "a test says so");
  await eventually(async () => (await ledger.dispatchedAgain()) >= 30);
  ledger.openGate();

  await ledger.endedOnce(ids);
  await eventually(
    async () =>
      (await line.database.rows("select from waybill.audit where lost is null")).length === 1,
  );
  const [most] = await line.database.rows<{ dispatches: string }>(
    "select max(dispatch)::text as dispatches from waybill.outbox where queue = 'work'",
  );
  expect(most).toEqual({ dispatches: "2" });
});

test("a job that is lost again before anybody claims it waits longer each time", async () => {
  await using ledger = await startLedger();
  const { line } = ledger;
  const store = createAuditStore(line.database.pool);
  await line.database.rows("update waybill.relay set epoch = 7");
  await line.database.rows("insert into waybill.audit (queue) values ('work')");
  const [id = ""] = await ledger.enqueue(1);
  const pauses: number[] = [];

  for (let loss = 1; loss <= 4; loss += 1) {
    await store.dispatchLost("7", [{ id, queue: "work" }], "lost");
    // Twice says nothing new while it waits.
    await store.dispatchLost("7", [{ id, queue: "work" }], "lost");
    const [timer] = await line.database.rows<{ seconds: number; dispatch: number }>(
      `with due as (delete from waybill.timer returning *),
       fired as (
         insert into waybill.outbox (id, queue, dispatch, type, payload)
         select d.id, d.queue, d.dispatch, d.type, d.payload from due as d
       )
       select round(extract(epoch from fire_at - created_at))::integer as seconds, dispatch from due`,
    );
    expect(timer?.dispatch).toBe(loss + 1);
    pauses.push(timer?.seconds ?? -1);
  }

  expect(pauses).toEqual([0, 10, 20, 40]);
});

test("a relay without the term dispatches nothing again and moves no place", async () => {
  await using ledger = await startLedger();
  const { line } = ledger;
  const store = createAuditStore(line.database.pool);
  await line.database.rows("update waybill.relay set epoch = 8");
  await line.database.rows("insert into waybill.audit (queue) values ('work')");
  const [id = ""] = await ledger.enqueue(1);

  const books = await store.read("7");
  const dispatched = await store.dispatchLost("7", [{ id, queue: "work" }], "lost");
  await store.takeForLost("7", "lost");

  expect(books).toBeUndefined();
  expect(dispatched).toEqual([]);
  expect(await line.database.rows("select lost from waybill.audit")).toEqual([{ lost: null }]);
});

test("a job is overtaken when one that was published later is claimed, and not by one with a priority", async () => {
  await using ledger = await startLedger();
  const { line } = ledger;
  const store = createAuditStore(line.database.pool);
  await ledger.enqueue(1);
  const [before] = await line.database.rows<{ at: string }>(
    "select pg_current_snapshot()::text as at",
  );
  const [id = ""] = await ledger.enqueue(1);
  const isOvertaken = (): Promise<boolean> => store.isOvertaken("work", before?.at ?? "");
  const claim = (values: string): Promise<unknown> =>
    line.database.rows(
      `insert into waybill.inbox (id, queue, type, state, dispatch, started_at) values ($1, ${values})`,
      [id],
    );

  const unclaimed = await isOvertaken();
  await claim("'other', 't', 'running', 1, now()");
  const elsewhere = await isOvertaken();
  await claim("'work', 't', 'running', 1, now()");
  const claimed = await isOvertaken();
  await line.database.rows("update waybill.outbox set priority = 5");
  const preferred = await isOvertaken();

  expect([unclaimed, elsewhere, claimed, preferred]).toEqual([false, false, true, false]);
});
