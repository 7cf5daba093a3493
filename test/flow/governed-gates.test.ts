/** What holds jobs of governed queues back, and what lets them go. */

import { defineDependency, RetryAfterError } from "@waybill/core";
import { createDependencies, createDependencyStore } from "@waybill/postgres";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { type Flow, startFlow } from "./support/flow.ts";

const nothing = { slots: 0, backlog: 0 };

/** Three jobs that are dispatched to a worker that does not take them. */
async function dispatchThree(flow: Flow): Promise<string[]> {
  flow.startRelay();
  await flow.sql(
    `with me as (insert into waybill.worker (id, name, host, pid, version, queues, lease_until)
       values (gen_random_uuid(), 'away', 'h', 1, '0', '{work}', now() + interval '1 hour') returning id)
     insert into waybill.worker_queue (worker, queue, concurrency, held) select id, 'work', 5, 0 from me`,
  );
  await flow.declare();
  const ids = await flow.enqueue(3, () => ({ concurrencyKey: "k" }));
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 3, backlog: 0 }));
  return ids;
}

test("a cancelled job of the backlog never starts", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  const gate = Promise.withResolvers<void>();
  await flow.startWorker(async (job) => {
    flow.note(job);
    await gate.promise;
  });
  flow.startRelay();
  const [first = "", second = "", third = ""] = await flow.enqueue(3, () => ({
    concurrencyKey: "k",
  }));
  await eventually(() => flow.starts().length === 1);
  await eventually(async () => (await flow.leftovers()).backlog === 2);

  await flow.jobs.cancel(second);
  gate.resolve();

  await flow.ended([first, third]);
  expect(flow.starts().map(({ id }) => id)).toEqual([first, third]);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});

test("cancelling the head that waits for its retry frees its ordering key", async () => {
  await using flow = await startFlow({ order: {} });
  await flow.startWorker((job) => {
    flow.note(job);
    if (job.payload.n === 0) throw new RetryAfterError("later", 600_000);
  });
  flow.startRelay();
  const [head = "", next = ""] = await flow.enqueue(2, () => ({ orderingKey: "o" }));
  await eventually(async () => (await flow.jobs.get(head)).state === "retry_waiting");
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 1, backlog: 1 }));

  await flow.jobs.cancel(head);

  await flow.ended([next]);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});

test("a head that has failed as often as the policy says lets its key go on", async () => {
  await using flow = await startFlow({ order: { parkAfterAttempts: 2 } });
  await flow.startWorker((job) => {
    flow.note(job);
    if (job.payload.n === 0) throw new RetryAfterError("later", job.attempt === 1 ? 1 : 600_000);
  });
  flow.startRelay();

  const [head = "", next = ""] = await flow.enqueue(2, () => ({ orderingKey: "o" }));

  await flow.ended([next]);
  expect(flow.starts().map(({ n }) => n)).toEqual([0, 0, 1]);
  expect((await flow.jobs.get(head)).state).toBe("retry_waiting");
});

test("the end of the attempts of a head lets its key go on", async () => {
  await using flow = await startFlow({ order: {} });
  await flow.startWorker((job) => {
    flow.note(job);
    if (job.payload.n === 0) throw new TypeError("always");
  });
  flow.startRelay();

  const [head = "", next = ""] = await flow.enqueue(2, () => ({ orderingKey: "o" }));

  await flow.ended([next]);
  expect((await flow.jobs.get(head)).state).toBe("failed");
  expect(flow.starts().at(-1)?.n).toBe(1);
});

test("a Retry-After that closes the key holds the other jobs of the key, and no other key", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  await flow.startWorker((job) => {
    flow.note(job);
    if (job.payload.n === 0 && job.attempt === 1) {
      throw new RetryAfterError("slow down", 1_500, { closes: "key" });
    }
  });
  flow.startRelay();

  const ids = await flow.enqueue(4, (n) => ({ concurrencyKey: n < 2 ? "shut" : "open" }));
  await flow.ended(ids);

  const startOf = (n: number): number =>
    flow.starts().find((start) => start.n === n)?.startedAtMs ?? 0;
  expect(startOf(1) - startOf(0)).toBeGreaterThanOrEqual(1_450);
  expect(startOf(2)).toBeLessThan(startOf(1));
  expect(startOf(3)).toBeLessThan(startOf(1));
});

test("nothing of a paused type starts, also of what was dispatched before, and all of it after it is resumed", async () => {
  await using flow = await startFlow({ keys: {} });
  await flow.startWorker((job) => flow.note(job));
  await flow.sql(
    "insert into waybill.queue_gate (queue, kind, name, paused_at) values ('work', 'type', 'flow.job', now())",
  );
  flow.startRelay();
  const ids = await flow.enqueue(5);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 5 }));

  await flow.sql("delete from waybill.queue_gate");

  await flow.ended(ids);
  expect(flow.starts()).toHaveLength(5);
});

test("a job that was dispatched before its key was paused goes back without an attempt", async () => {
  await using flow = await startFlow({ keys: {} });
  const ids = await dispatchThree(flow);

  await flow.sql(
    "insert into waybill.queue_gate (queue, kind, name, paused_at) values ('work', 'key', 'k', now())",
  );
  await flow.startWorker((job) => flow.note(job));
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 3 }));
  expect(flow.starts()).toHaveLength(0);
  await flow.sql("delete from waybill.queue_gate");

  await flow.ended(ids);
  expect(await flow.sql("select distinct attempt from waybill.inbox")).toEqual([{ attempt: 1 }]);
});

test("a job that was dispatched before the breaker of its type in the queue opened goes back without an attempt", async () => {
  await using flow = await startFlow({ keys: {}, types: { "flow.job": { dependsOn: ["smtp"] } } });
  const smtp = defineDependency({ name: "smtp" });
  await createDependencyStore(flow.app.database.pool).declare([smtp]);
  const breakers = createDependencies({ database: flow.app.dataLayer });
  const ids = await dispatchThree(flow);

  await breakers.open("smtp");
  await flow.startWorker((job) => flow.note(job), { dependencies: [smtp] });
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 3 }));
  expect(flow.starts()).toHaveLength(0);
  await breakers.close("smtp");

  await flow.ended(ids);
  expect(await flow.sql("select distinct attempt from waybill.inbox")).toEqual([{ attempt: 1 }]);
});

test("a limit that is lowered while jobs run holds for every start from then on", async () => {
  await using flow = await startFlow({ keys: { concurrency: 4 } });
  await flow.startWorker((job) => flow.note(job));
  flow.startRelay();
  const ids = await flow.enqueue(
    200,
    () => ({ concurrencyKey: "k" }),
    () => ({ ms: 30 }),
  );
  await eventually(() => flow.starts().length >= 10);

  await flow.sql(`update waybill.queue set overrides = '{"keys": {"concurrency": 1}}'`);
  const lowered = flow.starts().length;
  await flow.ended(ids);

  // What was dispatched at that moment goes on; behind it there is one at a time.
  const later = flow.starts().slice(lowered + 8);
  for (const [index, start] of later.entries()) {
    const before = later[index - 1];
    if (before !== undefined) expect(start.startedAtMs).toBeGreaterThanOrEqual(before.endedAtMs);
  }
  expect(later.length).toBeGreaterThan(10);
});

test("what waits when a queue is no longer governed is dispatched, and then jobs pass through", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  await flow.startWorker((job) => flow.note(job));
  flow.startRelay();
  const ids = await flow.enqueue(20, () => ({ concurrencyKey: "k" }));

  await flow.sql(`update waybill.queue set overrides = '{"keys": null}'`);
  ids.push(...(await flow.enqueue(5)));

  await flow.ended(ids);
  expect(flow.starts()).toHaveLength(25);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});

test("a dead letter that was moved back by hand is redriven through a slot", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  let fails = true;
  await flow.startWorker((job) => {
    flow.note(job);
    if (fails) throw new TypeError("always");
  });
  flow.startRelay();
  const [id = ""] = await flow.enqueue(1);
  const letter = await flow.app.courier.next("waybill.work.dlq");
  fails = false;

  await flow.app.courier.publish({
    routingKey: `${flow.app.vhost.prefix}.work`,
    content: letter.content,
    properties: { ...letter.properties, headers: letter.headers },
  });

  await flow.ended([id]);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});
