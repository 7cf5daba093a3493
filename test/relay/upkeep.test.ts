/** What the relay does beside publishing: timers, partitions, retention. */

import { expect, test } from "vitest";

import { eventually } from "../support/index.ts";
import { enqueue, type House, inTransaction, isDrained, startHouse } from "./support.ts";

const partitionsOf = async (house: House, table: string): Promise<readonly string[]> =>
  (
    await house.database.rows<{ name: string }>(
      "select name from waybill.list_partitions(('waybill.' || $1)::regclass) order by 1",
      [table],
    )
  ).map(({ name }) => name);

/** Moves the clock of everything stored: rows look as if they were written so long ago. */
const age = async (house: House, days: number): Promise<void> => {
  await house.database.rows(
    `update waybill.outbox set created_at = created_at - $1 * interval '1 day'`,
    [days],
  );
};

test("A25, F6: delays of any order fire at their times, a long one never keeps a short one waiting", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  house.startRelay();
  const delays = [86_400_000, 900, 1, 600, 3_600_000, 300, 86_400_000, 450];

  await enqueue(
    house.database.pool,
    delays.map((delayMs) => ({ payload: delayMs, delay_ms: delayMs })),
  );

  await eventually(() => collected.messages.length === 5);
  expect(collected.messages.map(({ body }) => Number(body))).toEqual([1, 300, 450, 600, 900]);
  const [left] = await house.database.rows("select count(*)::int as n from waybill.timer");
  expect(left).toEqual({ n: 3 });
});

test("a timer of a transaction that rolls back never fires", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  house.startRelay();
  await expect(
    inTransaction(house.database.pool, async (client) => {
      await enqueue(client, [{ delay_ms: 1 }]);
      throw new Error("no");
    }),
  ).rejects.toThrow("no");
  const [id] = await enqueue(house.database.pool, [{ delay_ms: 1 }]);

  await eventually(() => collected.messages.length === 1);
  expect(collected.ids).toEqual([id]);
});

test("a timer that the outbox refuses is held with the reason, and the others fire", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  await enqueue(house.database.pool, [{ delay_ms: 1 }, { delay_ms: 50 }, { delay_ms: 100 }]);
  await house.database.rows(
    "update waybill.timer set queue = 'Not A Queue' where fire_at = (select min(fire_at) from waybill.timer)",
  );

  house.startRelay();

  await eventually(() => collected.messages.length === 2);
  const held = await house.database.rows(
    "select queue, detail from waybill.timer where fire_at = 'infinity'",
  );
  expect(held).toEqual([
    { queue: "Not A Queue", detail: expect.stringContaining("outbox_queue_name") as string },
  ]);
});

test("partitions are made ahead, and rows of the default partition move into them without being published again or lost", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const ids: string[] = [];
  for (let n = 0; n < 20; n += 1) {
    ids.push(
      ...(await enqueue(
        house.database.pool,
        Array.from({ length: 50 }, () => ({ ordering_key: "k" })),
      )),
    );
  }

  // Moves the rows while it pages them.
  house.startRelay({ batchSize: 10 });
  for (let n = 0; n < 20; n += 1) ids.push(...(await enqueue(house.database.pool, [{}])));

  await eventually(async () => expect(await partitionsOf(house, "outbox")).toHaveLength(3));
  await eventually(async () => expect(await partitionsOf(house, "inbox")).toHaveLength(3));
  await eventually(() => isDrained(house));
  await eventually(() => collected.ids.length === ids.length);
  expect(collected.messages).toHaveLength(ids.length);
  const keyed = collected.messages.filter(({ headers }) => "waybill-ordering-key" in headers);
  expect(keyed.map(({ id }) => id)).toEqual(ids.slice(0, 1_000));
  const [caught] = await house.database.rows(
    "select count(*)::int as n from waybill.outbox_default",
  );
  expect(caught).toEqual({ n: 0 });
});

test("jobs are enqueued while there is no partition for today", async () => {
  await using house = await startHouse();

  const ids = await enqueue(house.database.pool, [{}, {}]);

  expect(ids).toHaveLength(2);
  expect(await partitionsOf(house, "outbox")).toEqual(["outbox_default"]);
});

test("K1: a partition is dropped only when it is old and holds nothing unpublished; unfinished jobs move to today's", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const [ended, waiting] = await enqueue(house.database.pool, [{}, {}]);
  const first = house.startRelay();
  await eventually(() => isDrained(house));
  await eventually(async () => expect(await partitionsOf(house, "outbox")).toHaveLength(3));
  await first.stop();
  await house.database.rows(
    "insert into waybill.inbox (id, queue, type, state, dispatch, finished_at) values ($1, 'email', 't', 'succeeded', 1, clock_timestamp())",
    [ended],
  );
  await house.database.rows(
    `select waybill.create_outbox_partition('outbox_20200102', date_trunc('day', now() - interval '10 days', 'UTC'), date_trunc('day', now() - interval '9 days', 'UTC'), 0),
            waybill.create_outbox_partition('outbox_20200101', date_trunc('day', now() - interval '11 days', 'UTC'), date_trunc('day', now() - interval '10 days', 'UTC'), 0)`,
  );
  await age(house, 10);
  // Not published yet: written by nobody's relay.
  const [unpublished] = await enqueue(house.database.pool, [{ queue: "other" }]);
  await house.database.rows(
    "update waybill.outbox set created_at = created_at - interval '11 days' where id = $1",
    [unpublished],
  );
  expect(await partitionsOf(house, "outbox")).toContain("outbox_20200102");

  house.startRelay();

  await eventually(async () => {
    const names = await partitionsOf(house, "outbox");
    expect(names).not.toContain("outbox_20200102");
  });
  const rows = await house.database.rows<{ id: string; age: boolean }>(
    "select id, created_at > clock_timestamp() - interval '1 hour' as age from waybill.outbox where queue = 'email'",
  );
  expect(rows).toEqual([{ id: waiting, age: true }]);
  const others = await eventually(() => house.collect("other"));
  await eventually(() => others.ids.includes(unpublished ?? ""));
  // Moved, not published again.
  expect(collected.messages).toHaveLength(2);
});

test("an open transaction that wrote into an old partition keeps it from being dropped", async () => {
  await using house = await startHouse();
  await house.database.rows(
    "select waybill.create_outbox_partition('outbox_20200102', date_trunc('day', now() - interval '10 days', 'UTC'), date_trunc('day', now() - interval '9 days', 'UTC'), 0)",
  );
  const [row] = await house.database.rows<{ snapshot: string }>(
    "select pg_current_snapshot()::text as snapshot",
  );
  await enqueue(house.database.pool, [{}]);
  await age(house, 10);

  const [dropped] = await house.database.rows(
    "select waybill.drop_outbox_partition('outbox_20200102', $1::pg_snapshot) as done",
    [row?.snapshot],
  );

  expect(dropped).toEqual({ done: false });
  expect(await partitionsOf(house, "outbox")).toContain("outbox_20200102");
});

test("K1: an old partition of the inbox is dropped, and what is unfinished or ended lately stays", async () => {
  await using house = await startHouse();
  await house.database.rows(
    "select waybill.create_inbox_partition('inbox_20200101', date_trunc('week', now() - interval '60 days', 'UTC'), date_trunc('week', now() - interval '53 days', 'UTC'), 0)",
  );
  await house.database.rows(
    `insert into waybill.inbox (id, queue, type, state, dispatch, finished_at)
     select (left(waybill.id_at(date_trunc('week', now() - interval '60 days', 'UTC') + interval '1 hour')::text, 24) || lpad(n::text, 12, '0'))::uuid,
       'email', 't', s.state, 1, now() - s.days * interval '1 day'
     from (values (1, 'succeeded', 58), (2, 'running', null), (3, 'succeeded', 1)) as s (n, state, days)`,
  );

  house.startRelay();

  await eventually(async () =>
    expect(await partitionsOf(house, "inbox")).not.toContain("inbox_20200101"),
  );
  const rows = await house.database.rows(
    "select state, finished_at is null as open from waybill.inbox order by id",
  );
  expect(rows).toEqual([
    { state: "running", open: true },
    { state: "succeeded", open: false },
  ]);
});

test("K1: what is past its retention is pruned, and nothing else", async () => {
  await using house = await startHouse();
  const ids =
    "array['01890000-0000-7000-8000-000000000001', '01890000-0000-7000-8000-000000000002']::uuid[]";
  const times = "array[now() - interval '40 days', now() - interval '20 days']";
  const rows = `from unnest(${ids}, ${times}) as u (id, at)`;
  for (const statement of [
    `insert into waybill.failure (id, queue, type, attempt, token, failure_class, message, fingerprint, terminal, failed_at) select id, 'email', 't', 1, 1, 'unknown', 'm', 'f', false, at ${rows}`,
    `insert into waybill.result (id, queue, result, created_at) select id, 'email', '1', at ${rows}`,
    `insert into waybill.dead_letter (id, queue, type, attempts, failure_class, message, fingerprint, payload, enqueued_at, died_at) select id, 'email', 't', 1, 'unknown', 'm', 'f', '1', at, at ${rows}`,
    `insert into waybill.idempotency_key (type, key, job_id, mode, expires_at) select 't', id::text, id, 'for_a_time', at + interval '30 days' ${rows}`,
    `insert into waybill.idempotency_key (type, key, job_id, mode) values ('t', 'ended', '01890000-0000-7000-8000-000000000003', 'until_end')`,
    `insert into waybill.timer (id, kind, fire_at, reason, type, payload, enqueued_at) select id, 'event', 'infinity', 'unroutable', 't', '1', at ${rows}`,
    `insert into waybill.worker (id, name, host, pid, version, queues, lease_until) select id, 'w', 'h', 1, '1', '{}', at + interval '20 days' ${rows}`,
    `insert into waybill.watch (id, watcher, lease_until) select id, id, at + interval '20 days' ${rows}`,
    `insert into waybill.waiting (queue, id) select 'unlimited', id ${rows}`,
    `insert into waybill.queue (name, declared) values ('bounded', '{"maxWaiting": {"jobs": 5}}')`,
    `insert into waybill.waiting (queue, id) select 'bounded', id ${rows} limit 1`,
  ]) {
    await house.database.rows(statement);
  }

  house.startRelay();

  await eventually(async () => {
    const [left] = await house.database.rows(
      `select (select count(*)::int from waybill.failure) as failures, (select count(*)::int from waybill.result) as results,
        (select count(*)::int from waybill.dead_letter) as letters, (select count(*)::int from waybill.idempotency_key) as keys,
        (select count(*)::int from waybill.worker) as workers, (select count(*)::int from waybill.timer) as events,
        (select count(*)::int from waybill.watch) as watches, (select count(*)::int from waybill.waiting) as waiting`,
    );
    expect(left).toEqual({
      failures: 1,
      results: 1,
      letters: 1,
      keys: 1,
      workers: 1,
      events: 1,
      watches: 1,
      waiting: 1,
    });
  });
});

test("checkpoints, progress and acts are pruned with their jobs, and those of a job that may go on are kept", async () => {
  await using house = await startHouse();
  const kept = ["running", "retry_waiting", "failed"];
  const jobs = [...kept, "succeeded", "forgotten"].map((state, n) => ({
    id: `01890000-0000-7000-8000-00000000000${n}`,
    state,
  }));
  await house.database.rows(
    `with job as (select * from jsonb_to_recordset($1::jsonb) as j (id uuid, state text)),
     known as (
       insert into waybill.inbox (id, queue, type, state, dispatch, finished_at)
       select id, 'email', state, state, 1, case when state in ('failed', 'succeeded') then now() - interval '40 days' end
       from job where state <> 'forgotten'
     ),
     letter as (
       insert into waybill.dead_letter (id, queue, type, attempts, failure_class, message, fingerprint, payload, enqueued_at)
       select id, 'email', 't', 1, 'unknown', 'm', 'f', '1', now() - interval '50 days' from job where state = 'failed'
     ),
     time as (select days, now() - days * interval '1 day' as at from (values (40), (20)) as v (days)),
     place as (
       insert into waybill.checkpoint (id, queue, number, attempt, checkpoint, created_at)
       select id, 'email', days, 1, '1', at from job, time
     ),
     act as (
       insert into waybill.audit_log (at, actor, action, id, queue, detail)
       select at, 'a', 'redrive', id, 'email', 'death ' || days from job, time
     )
     insert into waybill.progress (id, queue, attempt, stage, reported_at)
     select id, 'email', 1, 's', now() - interval '40 days' from job`,
    [JSON.stringify(jobs)],
  );
  await house.database.rows(
    `insert into waybill.audit_log (at, actor, action) values (now() - interval '40 days', 'relay', 'rescan')`,
  );

  // The inbox remembers the succeeded job longer than its history is kept.
  house.startRelay({ inboxRetentionMs: 60 * 86_400_000 });

  const old = async (table: string, time: string): Promise<readonly string[]> =>
    (
      await house.database.rows<{ state: string }>(
        `select j.state from waybill.${table} as t
         left join jsonb_to_recordset($1::jsonb) as j (id uuid, state text) on j.id = t.id
         where t.${time} < now() - interval '30 days' order by j.id`,
        [JSON.stringify(jobs)],
      )
    ).map(({ state }) => state);
  await eventually(async () => expect(await old("checkpoint", "created_at")).toEqual(kept));
  await eventually(async () =>
    expect(await old("progress", "reported_at")).toEqual(["running", "retry_waiting"]),
  );
  await eventually(async () =>
    expect(await old("audit_log", "at")).toEqual([...kept, "succeeded"]),
  );
  const [young] = await house.database.rows(
    `select (select count(*)::int from waybill.checkpoint where number = 20) as checkpoints,
       (select count(*)::int from waybill.audit_log where detail = 'death 20') as acts`,
  );
  expect(young).toEqual({ checkpoints: 5, acts: 5 });
});
