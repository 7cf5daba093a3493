import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { flowJob, startFlow } from "./support/flow.ts";

/** Starts a worker that notes the numbers of each batch's jobs. */
async function startBatches(flow: Awaited<ReturnType<typeof startFlow>>): Promise<number[][]> {
  const batches: number[][] = [];
  await flow.declare();
  await flow.app.startWorker(
    (worker) =>
      worker.handleBatch(flowJob, { maxJobs: 20, maxWaitMs: 50 }, async (jobs) => {
        batches.push(jobs.map(({ payload }) => payload.n));
        // Long enough for others to start beside it, if they may.
        for (const job of jobs) await job.transaction((tx) => tx.query("select pg_sleep(0.005)"));
        for (const { attempt, payload, ...job } of jobs) {
          if (payload.n % 8 === 0 && attempt === 1) job.fail(new Error("once"));
        }
      }),
    { queues: { work: { concurrency: 20 } } },
  );
  return batches;
}

/** The most jobs of one group that were together in a batch. */
const mostTogether = (batches: readonly (readonly number[])[], groups: number): number =>
  Math.max(
    ...batches.flatMap((batch) =>
      Array.from(
        { length: groups },
        (_, group) => batch.filter((n) => n % groups === group).length,
      ),
    ),
  );

test("two jobs of an ordering key never meet in a batch, and their order holds over failures", async () => {
  await using flow = await startFlow({ order: {} });
  const batches = await startBatches(flow);
  flow.startRelay();

  const ids = await flow.enqueue(40, (n) => ({ orderingKey: `key${n % 5}` }));

  await flow.ended(ids);
  expect(mostTogether(batches, 5)).toBe(1);
  expect(Math.max(...batches.map(({ length }) => length))).toBeGreaterThan(1);
  for (const key of [0, 1, 2, 3, 4]) {
    const order = batches.flat().filter((n) => n % 5 === key);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  }
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});

test("a batch holds no more jobs of a concurrency key than may run, and gives all slots back", async () => {
  await using flow = await startFlow({ keys: { concurrency: 2 } });
  const batches = await startBatches(flow);
  flow.startRelay();

  const ids = await flow.enqueue(40, (n) => ({ concurrencyKey: `tenant${n % 4}` }));

  await flow.ended(ids);
  expect(mostTogether(batches, 4)).toBeLessThanOrEqual(2);
  expect(batches.flat()).toHaveLength(45);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});
