import { expect, test } from "vitest";
import type { Incoming } from "./incoming.ts";
import { prefetchOf, PrefetchTuner } from "./prefetch.ts";
import { WorkQueue } from "./work-queue.ts";

const delivered = (returned: string[], key: string): Incoming =>
  ({ key, delivery: { requeue: () => returned.push(key) > 0 } }) as unknown as Incoming;

test.each([
  [1, 10],
  [5, 10],
  [20, 40],
  [1_000, 1_000],
])("prefetch for %i slots is %i", (concurrency, prefetch) => {
  expect(prefetchOf(concurrency)).toBe(prefetch);
});

const noDoor = { shut: () => Promise.resolve(), open: () => undefined };

test("what waits behind slow jobs is given back once, and no more is held than there are slots", () => {
  const queue = new WorkQueue("q", 1);
  const prefetches: number[] = [];
  const returned: string[] = [];
  const tuner = new PrefetchTuner(
    queue,
    { setPrefetch: (count) => void prefetches.push(count) },
    noDoor,
    600_000,
  );
  queue.occupySlot();
  queue.push(delivered(returned, "a"));
  const since = queue.fullSinceMs ?? 0;

  tuner.look(since + 500);
  tuner.look(since + 1_500);
  queue.push(delivered(returned, "b"));
  tuner.look(since + 4_900);

  expect(prefetches).toEqual([1]);
  expect(returned).toEqual(["a"]);
});

test("nothing is taken behind long jobs, and then no more than there are free slots", () => {
  const queue = new WorkQueue("q", 3);
  const steps: string[] = [];
  const returned: string[] = [];
  const tuner = new PrefetchTuner(
    queue,
    { setPrefetch: (count) => void steps.push(`prefetch ${count}`) },
    {
      shut: () => Promise.resolve(void steps.push("shut")),
      open: () => void steps.push("open"),
    },
    20_000,
  );
  for (let slot = 0; slot < 3; slot += 1) queue.occupySlot();
  const since = queue.fullSinceMs ?? 0;
  tuner.look(since + 11_000);
  queue.push(delivered(returned, "a"));
  tuner.look(since + 11_500);

  queue.freeSlot();
  queue.freeSlot();
  queue.occupySlot();
  queue.occupySlot();

  expect(returned).toEqual(["a"]);
  expect(steps).toEqual([
    "shut",
    "prefetch 1",
    "open",
    "prefetch 2",
    "open",
    "prefetch 1",
    "open",
    "shut",
  ]);
});

/** A tuner that is at long, and what it does from there on. */
function longTuner(slots: number): {
  readonly queue: WorkQueue;
  readonly tuner: PrefetchTuner;
  readonly since: number;
  readonly steps: string[];
} {
  const queue = new WorkQueue("q", slots);
  const steps: string[] = [];
  const tuner = new PrefetchTuner(
    queue,
    { setPrefetch: (count) => void steps.push(`prefetch ${count}`) },
    {
      shut: () => Promise.resolve(void steps.push("shut")),
      open: () => void steps.push("open"),
    },
    2_000,
  );
  for (let slot = 0; slot < slots; slot += 1) queue.occupySlot();
  queue.push(delivered(steps, "first"));
  const since = queue.fullSinceMs ?? 0;
  tuner.look(since + 1_500);
  return { queue, tuner, since, steps };
}

test("a delivery that was on its way when nothing was to be taken any more is given back, too", () => {
  const { queue, tuner, since, steps } = longTuner(1);
  queue.push(delivered(steps, "late"));
  tuner.look(since + 2_000);
  tuner.look(since + 2_500);

  expect(steps).toEqual(["shut", "first", "late"]);
});

test("quick jobs beside long ones end the taking of single deliveries", () => {
  const { queue, tuner, since, steps } = longTuner(3);
  for (let ended = 0; ended < 5; ended += 1) {
    queue.freeSlot();
    queue.occupySlot();
  }
  steps.length = 0;
  tuner.look(since + 2_000);
  queue.freeSlot();
  queue.occupySlot();

  expect(steps).toEqual(["prefetch 3", "open"]);
});

test("a queue whose jobs are quick again holds more again, after a while", () => {
  const queue = new WorkQueue("q", 2);
  const prefetches: number[] = [];
  const tuner = new PrefetchTuner(
    queue,
    { setPrefetch: (count) => void prefetches.push(count) },
    noDoor,
    600_000,
  );
  queue.occupySlot();
  queue.occupySlot();
  queue.push(delivered([], "a"));
  const since = queue.fullSinceMs ?? 0;
  tuner.look(since + 1_500);

  for (let ended = 0; ended < 20; ended += 1) {
    queue.freeSlot();
    queue.occupySlot();
  }
  tuner.look(since + 2_000);
  for (let ended = 0; ended < 20; ended += 1) {
    queue.freeSlot();
    queue.occupySlot();
  }
  tuner.look(since + 20_000);

  expect(prefetches).toEqual([2, 10]);
});

test("a smaller share holds less, and gives back what is too much; a larger one holds more", () => {
  const queue = new WorkQueue("q", 50);
  const steps: string[] = [];
  const tuner = new PrefetchTuner(
    queue,
    { setPrefetch: (count) => void steps.push(`prefetch ${count}`) },
    noDoor,
    600_000,
  );
  queue.onLimitChange = () => tuner.refit();
  queue.occupySlot();
  for (let n = 0; n < 11; n += 1) queue.push(delivered(steps, `job ${n}`));

  queue.setGate(3);
  queue.setGate(20);

  expect(steps).toEqual(["prefetch 10", "job 9", "job 10", "prefetch 40"]);
});
