/** What operators do to jobs that wait in a governed queue, through the whole line. */

import { RetryAfterError } from "@waybill/core";
import { createQueues, type Queues } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { type Flow, flowJob, startFlow } from "./support/flow.ts";

const nothing = { slots: 0, backlog: 0 };

const queuesOf = (flow: Flow): Queues<PoolClient> => createQueues({ database: flow.app.dataLayer });

test("jobs that were edited and reprioritised while their queue was paused run as they were changed", async () => {
  await using flow = await startFlow({ concurrency: 1, priority: {} });
  // It shares the limit out, without which no worker takes a job.
  flow.startRelay();
  await flow.startWorker((job) => flow.note(job));
  const queues = queuesOf(flow);
  await queues.pause({ queue: "work" });
  const [first = "", second = "", third = ""] = await flow.enqueue(3);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 3 }));
  const held = await flow.jobs.explain(first);

  await flow.jobs.edit(second, { job: flowJob, payload: { n: 20 } });
  await flow.jobs.reprioritise(third, 50);
  await queues.resume({ queue: "work" });

  await flow.ended([first, second, third]);
  expect(held.heldBy?.gate).toBe("queue_paused");
  expect(flow.starts().map(({ n }) => n)).toEqual([2, 0, 20]);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});

test("the first job that goes after a pause is the one that was put first before the pause ended", async () => {
  await using flow = await startFlow({ concurrency: 1, priority: {} });
  flow.startRelay();
  await flow.startWorker((job) => flow.note(job));
  const queues = queuesOf(flow);
  const rounds = Array.from({ length: 8 }, (_, round) => round);
  for (const round of rounds) {
    await queues.pause({ queue: "work" });
    const [first = "", second = ""] = await flow.enqueue(2);
    await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 2 }));
    await flow.jobs.reprioritise(second, 50);
    await queues.resume({ queue: "work" });
    await flow.ended([first, second]);
    expect(
      flow
        .starts()
        .slice(round * 2)
        .map(({ n }) => n),
    ).toEqual([1, 0]);
  }
});

test("a job that is put off does not run before its time, also after a takeover, and runs once then", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  const queues = queuesOf(flow);
  await flow.declare();
  await queues.pause({ queue: "work" });
  const [late = "", ...others] = await flow.enqueue(3, () => ({ concurrencyKey: "k" }));
  // Its successor reads the same rows of the outbox again.
  await flow.killRelayAt("relay.beforeSave", 1);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 3 }));

  await flow.jobs.delay(late, { delayMs: 600_000 });
  await flow.startWorker((job) => flow.note(job));
  flow.startRelay();
  await queues.resume({ queue: "work" });
  await flow.ended(others);
  const early = await flow.jobs.explain(late);
  await flow.jobs.release(late);

  await flow.ended([late]);
  expect(early.heldBy?.gate).toBe("delay");
  expect(flow.starts().map(({ n }) => n)).toEqual([1, 2, 0]);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});

test("releasing the retry of the first job of a blocked key frees the key", async () => {
  await using flow = await startFlow({ order: {} });
  await flow.startWorker((job) => {
    flow.note(job);
    if (job.payload.n === 0 && job.attempt === 1) throw new RetryAfterError("later", 600_000);
  });
  flow.startRelay();
  const [head = "", next = ""] = await flow.enqueue(2, () => ({ orderingKey: "o" }));
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 1, backlog: 1 }));
  await eventually(async () =>
    expect(await flow.jobs.blocked()).toMatchObject([{ reason: "retry" }]),
  );
  const behind = await flow.jobs.explain(next);

  await flow.jobs.release(head);

  await flow.ended([head, next]);
  expect(behind.heldBy).toMatchObject({ gate: "order" });
  expect(flow.starts().map(({ n }) => n)).toEqual([0, 0, 1]);
  expect(await flow.jobs.blocked()).toEqual([]);
});

test("the head of an ordering key that an operator's open transaction changes is not overtaken, and goes when it has ended", async () => {
  await using flow = await startFlow({ order: {} });
  await flow.declare();
  flow.startRelay();
  const ids = await flow.enqueue(3, () => ({ orderingKey: "key" }));
  // As long as there is no worker, nothing goes.
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 3 }));
  const client = await flow.app.database.pool.connect();
  try {
    await client.query("begin");
    await client.query("select from waybill.backlog where id = $1 for update", [ids[0]]);
    await flow.startWorker((job) => flow.note(job));
    // The relay has dispatched what may go.
    const others = await flow.enqueue(2, (n) => ({ orderingKey: `other${n}` }));
    await flow.ended(others);

    expect(flow.starts().filter(({ id }) => ids.includes(id))).toEqual([]);
  } finally {
    await client.query("rollback");
    client.release();
  }

  await flow.ended(ids);
  const order = flow.starts().flatMap(({ id }) => (ids.includes(id) ? [id] : []));
  expect(order).toEqual(ids);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});
