/** Copies of attempts that are over, in the backlog of a governed queue: they keep no later attempt from running. */

import { RetryAfterError } from "@waybill/core";
import { createQueues } from "@waybill/postgres";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { type Flow, startFlow } from "./support/flow.ts";

/** Adds copies of a job to the outbox, with these dispatches. */
async function addCopies(flow: Flow, id: string, dispatches: readonly number[]): Promise<void> {
  await flow.sql(
    `insert into waybill.outbox (
       id, kind, dispatch, queue, type, version, payload, payload_base64, headers, ordering_key, enqueued_at
     )
     select
       o.id, o.kind, c.dispatch, o.queue, o.type, o.version, o.payload, o.payload_base64, o.headers,
       o.ordering_key, o.enqueued_at
     from (select * from waybill.outbox where id = $1 order by tx desc limit 1) as o
     cross join unnest($2::integer[]) as c (dispatch)`,
    [id, dispatches],
  );
}

test("a retry whose time comes while a copy of the attempt before waits in the backlog takes its place", async () => {
  await using flow = await startFlow({ priority: {} });
  const queues = createQueues({ database: flow.app.dataLayer });
  flow.startRelay();
  await flow.startWorker((job) => {
    if (job.attempt === 1) throw new RetryAfterError("later", 600_000);
  });
  const [id = ""] = await flow.enqueue(1);
  await eventually(async () =>
    expect(await flow.sql("select dispatch from waybill.timer")).toEqual([{ dispatch: 2 }]),
  );
  await queues.pause({ queue: "work" });
  // As a relay leaves it that dispatched the job again while the attempt ended.
  await flow.sql(
    `insert into waybill.backlog (id, queue, place, key, type, priority, dispatch, enqueued_at)
     values ($1, 'work', 1, '', 'flow.job', 0, 1, now())`,
    [id],
  );
  await flow.sql("insert into waybill.freed (queue, changed) values ('work', array[$1::uuid])", [
    id,
  ]);
  await eventually(async () => expect(await flow.sql("select n from waybill.freed")).toEqual([]));

  await flow.jobs.release(id);
  await eventually(async () =>
    expect(await flow.sql("select dispatch from waybill.backlog")).toEqual([{ dispatch: 2 }]),
  );
  await queues.resume({ queue: "work" });

  await flow.ended([id]);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});

test.each([
  ["the head of an ordering key", { order: {} }, { orderingKey: "o" }],
  ["a job without one", { keys: {} }, {}],
])(
  "copies of the retry of %s that a new relay reads together run it once, beside one of the attempt before",
  async (_, settings, options) => {
    await using flow = await startFlow(settings);
    const first = flow.startRelay();
    await flow.startWorker((job) => {
      flow.note(job)[Symbol.dispose]();
      if (job.attempt === 1) throw new RetryAfterError("later", 600_000);
    });
    const [id = ""] = await flow.enqueue(1, () => options);
    await eventually(async () =>
      expect(await flow.sql("select dispatch from waybill.timer")).toEqual([{ dispatch: 2 }]),
    );
    await first.stop();
    // As they are left by a worker that freezes, is given up and wakes up, and one that put a copy aside and died.
    await addCopies(flow, id, [2, 2, 1]);
    await flow.sql("delete from waybill.timer");
    const [before] = await flow.sql("select epoch::integer as epoch from waybill.relay");

    flow.startRelay();
    await flow.ended([id]);
    await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));

    expect(flow.starts()).toHaveLength(2);
    expect(await flow.sql("select epoch::integer as epoch from waybill.relay")).toEqual([
      { epoch: Number(before?.["epoch"]) + 1 },
    ]);
  },
);

test("a copy that is read while its ordered job fails lets no later job of the key go before the retry", async () => {
  await using flow = await startFlow({ order: {} });
  flow.startRelay();
  const gate = Promise.withResolvers<void>();
  const runs: string[] = [];
  await flow.startWorker(async ({ payload, attempt }) => {
    runs.push(`${payload.n}.${attempt}`);
    if (runs.length === 1) await gate.promise;
  });
  const [head = "", next = ""] = await flow.enqueue(2, () => ({ orderingKey: "key" }));
  await eventually(() => expect(runs).toEqual(["0.1"]));
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 1, backlog: 1 }));

  // As a failed attempt leaves it, in the moment before its news is read.
  await flow.sql(
    `with ended as (
       update waybill.inbox set state = 'retry_waiting', token = token + 1 where id = $1 returning id
     ), waits as (
       update waybill.slot set waiting = true where id = $1 returning id
     )
     insert into waybill.timer (
       id, queue, kind, dispatch, fire_at, reason, type, version, payload, payload_base64, headers,
       ordering_key, enqueued_at
     )
     select
       o.id, o.queue, 'job', 2, now() + interval '1 hour', 'retry', o.type, o.version, o.payload,
       o.payload_base64, o.headers, o.ordering_key, o.enqueued_at
     from waybill.outbox as o where o.id = $1 order by o.tx desc limit 1`,
    [head],
  );
  await addCopies(flow, head, [1]);
  // The relay has read the copy, and dispatched what came after it.
  const [other = ""] = await flow.enqueue(1, () => ({ orderingKey: "other" }));
  await flow.ended([other]);
  gate.resolve();
  await flow.jobs.release(head);

  await flow.ended([head, next]);
  expect(runs.filter((run) => run !== "0.1")).toEqual(["0.2", "1.1"]);
});
