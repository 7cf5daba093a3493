/** Unique, debounced and bounded enqueues with a relay that dispatches and a worker that runs. */

import { QueueFullError } from "@waybill/core";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { type Flow, flowJob, startFlow } from "./support/flow.ts";

const nothing = { slots: 0, backlog: 0 };
const keyed = { concurrencyKey: "k" };

/** Starts a relay and a worker, and keeps the first job of key "k" running until the gate opens. */
async function hold(flow: Flow): Promise<{ readonly first: string; readonly open: () => void }> {
  const gate = Promise.withResolvers<void>();
  await flow.startWorker(async (job) => {
    flow.note(job);
    await gate.promise;
  });
  flow.startRelay();
  const [first = ""] = await flow.enqueue(1, () => keyed);
  await eventually(() => flow.starts().length === 1);
  return { first, open: () => gate.resolve() };
}

const waiting = async (flow: Flow): Promise<number> => {
  const [row] = await flow.sql("select count(*)::int as n from waybill.waiting");
  return Number(row?.["n"]);
};

test("a job that was dispatched does not count as waiting, and its place is another's", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 }, maxWaiting: { perKey: 2 } });
  const { first, open } = await hold(flow);
  expect(await waiting(flow)).toBe(0);
  const waits = await flow.enqueue(2, () => keyed);

  await expect(flow.enqueue(1, () => keyed)).rejects.toBeInstanceOf(QueueFullError);
  open();
  await eventually(async () => (await waiting(flow)) === 0);
  const later = await flow.enqueue(1, () => keyed);

  await flow.ended([first, ...waits, ...later]);
  expect(await waiting(flow)).toBe(0);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});

test("a job of the backlog that was dropped never starts, and the others do", async () => {
  await using flow = await startFlow({
    keys: { concurrency: 1 },
    maxWaiting: { perKey: 2, whenFull: "drop_oldest" },
  });
  const { first, open } = await hold(flow);
  const [dropped = "", second = ""] = await flow.enqueue(2, () => keyed);
  await eventually(async () => (await flow.leftovers()).backlog === 2);

  const [third = ""] = await flow.enqueue(1, () => keyed);
  await eventually(async () => (await flow.leftovers()).backlog === 2);
  open();

  await flow.ended([first, second, third]);
  expect(flow.starts().map(({ id }) => id)).toEqual([first, second, third]);
  expect((await flow.jobs.get(dropped)).state).toBe("cancelled");
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});

test("a debounced job that waits for its turn runs once, with the latest payload of a transaction that committed", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  const { first, open } = await hold(flow);
  const options = { ...keyed, idempotencyKey: "d", debounceMs: 1 };
  const enqueue = (n: number, fails = false): Promise<{ jobId: string }> =>
    flow.app.dataLayer.transaction(async (tx) => {
      const receipt = await flow.outbox.enqueue(tx, flowJob, { n }, options);
      if (fails) throw new RangeError("rolls back");
      return receipt;
    });
  const { jobId } = await enqueue(1);
  await eventually(async () => (await flow.leftovers()).backlog === 1);

  const second = await enqueue(2);
  await expect(enqueue(3, true)).rejects.toThrow(RangeError);
  open();

  expect(second).toEqual({ jobId, deduplicated: true });
  await flow.ended([first, jobId]);
  expect(flow.starts().map(({ n }) => n)).toEqual([0, 2]);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
});

test("a job that an open transaction would replace when its turn comes starts after the transaction's end", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  const { first, open } = await hold(flow);
  const options = { ...keyed, idempotencyKey: "d", debounceMs: 1 };
  const ids = await flow.enqueue(1, () => options);
  await eventually(async () => (await flow.leftovers()).backlog === 1);
  const replaced = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const replacing = flow.app.dataLayer.transaction(async (tx) => {
    await flow.outbox.enqueue(tx, flowJob, { n: 9 }, options);
    replaced.resolve();
    await release.promise;
  });
  await replaced.promise;

  open();
  await flow.ended([first]);
  const others = await flow.enqueue(3);
  await flow.ended(others);
  expect(flow.starts().some(({ id }) => ids.includes(id))).toBe(false);
  release.resolve();
  await replacing;

  await flow.ended(ids);
  expect(flow.starts().at(-1)).toMatchObject({ id: ids[0], n: 9 });
});
