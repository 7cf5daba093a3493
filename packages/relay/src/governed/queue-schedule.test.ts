import { type QueueSettings } from "@waybill/core";
import { expect, test } from "vitest";
import { BreakerViews } from "./breaker-views.ts";
import { laneMax } from "./lane.ts";
import { queueLimitsOf, type QueueLimits } from "./limits.ts";
import { QueueSchedule } from "./queue-schedule.ts";
import type { WaitingJob } from "./waiting-job.ts";

type Gate = Parameters<typeof queueLimitsOf>[1][number];

function limits(settings: QueueSettings, gates: readonly Partial<Gate>[] = []): QueueLimits {
  const queue = { name: "q", settings, governed: true, paused: false, closedMs: null };
  return queueLimitsOf(
    queue,
    gates.map((gate) => ({
      queue: "q",
      kind: "key",
      name: "",
      tier: null,
      paused: false,
      closedMs: null,
      ...gate,
    })),
    0,
  );
}

function schedule(
  settings: QueueSettings,
  gates: readonly Partial<Gate>[] = [],
  breakers = new BreakerViews(),
): QueueSchedule {
  return new QueueSchedule("q", limits(settings, gates), breakers, 0);
}

let place = 0;

function job(id: string, more: Partial<WaitingJob> = {}): WaitingJob {
  place += 1;
  return {
    id,
    queue: "q",
    place,
    key: "",
    orderingKey: null,
    type: "t",
    priority: 0,
    dispatch: 1,
    ...more,
  };
}

/** Ids in the order in which they are picked; each ends at once where `ends` is set. */
function drain(queue: QueueSchedule, nowMs: number, ends = true): string[] {
  const ids: string[] = [];
  for (let next = queue.pick(nowMs); next !== undefined; next = queue.pick(nowMs)) {
    ids.push(next.id);
    if (ends) queue.ended(next.id, nowMs);
  }
  return ids;
}

test("jobs of one priority go in the order of their places, higher priorities first", () => {
  const queue = schedule({ priority: {} });
  for (const [id, priority] of [
    ["low1", -5],
    ["mid1", 0],
    ["high1", 7],
    ["mid2", 0],
    ["high2", 7],
  ] as const) {
    queue.add(job(id, { priority }), 0);
  }

  expect(drain(queue, 0)).toEqual(["high1", "high2", "mid1", "mid2", "low1"]);
  expect(queue.isEmpty).toBe(true);
});

test("a low priority waits at most the difference of priorities times agingMs beside a stream of high ones", () => {
  const queue = schedule({ priority: { agingMs: 1_000 } });
  queue.add(job("low", { priority: 0 }), 0);
  let startedAtMs: number | undefined;
  for (let nowMs = 0; nowMs <= 4_000 && startedAtMs === undefined; nowMs += 100) {
    queue.add(job(`high${nowMs}`, { priority: 3 }), nowMs);
    queue.add(job(`more${nowMs}`, { priority: 3 }), nowMs);
    const next = queue.pick(nowMs);
    if (next?.id === "low") startedAtMs = nowMs;
    if (next !== undefined) queue.ended(next.id, nowMs);
  }

  expect(startedAtMs).toBeLessThanOrEqual(3_000);
  expect(startedAtMs).toBeGreaterThan(2_000);
});

test("keys share by weight, whatever each has waiting and whatever types its jobs have", () => {
  const settings = {
    keys: { tiers: { two: { weight: 2 }, five: { weight: 5 } } },
  } satisfies QueueSettings;
  const queue = schedule(settings, [
    { name: "b", tier: "two" },
    { name: "c", tier: "five" },
  ]);
  for (let n = 0; n < 5_000; n += 1) {
    queue.add(job(`a${n}`, { key: "a", type: n % 2 === 0 ? "x" : "y" }), 0);
    queue.add(job(`b${n}`, { key: "b" }), 0);
    queue.add(job(`c${n}`, { key: "c", type: `t${n % 3}` }), 0);
  }
  const counts = { a: 0, b: 0, c: 0 };

  for (let n = 0; n < 800; n += 1) {
    const next = queue.pick(0);
    counts[next?.key as "a"] += 1;
    queue.ended(next?.id ?? "", 0);
  }

  expect(counts).toEqual({ a: 100, b: 200, c: 500 });
});

test("a key with much work does not delay the first job of another one", () => {
  const queue = schedule({ keys: {} });
  for (let n = 0; n < 1_000; n += 1) queue.add(job(`big${n}`, { key: "big" }), 0);
  for (let n = 0; n < 500; n += 1) queue.ended(queue.pick(0)?.id ?? "", 0);

  queue.add(job("small", { key: "small" }), 0);
  const next = [queue.pick(0)?.id, queue.pick(0)?.id];

  expect(next).toContain("small");
});

test("no key has more slots than its limit, and a freed one goes to the next of it", () => {
  const queue = schedule({ keys: { concurrency: 2, tiers: { gold: { concurrency: 3 } } } }, [
    { name: "g", tier: "gold" },
  ]);
  for (let n = 0; n < 5; n += 1) {
    queue.add(job(`a${n}`, { key: "a" }), 0);
    queue.add(job(`g${n}`, { key: "g" }), 0);
  }

  const first = drain(queue, 0, false);
  expect(first.filter((id) => id.startsWith("a"))).toEqual(["a0", "a1"]);
  expect(first.filter((id) => id.startsWith("g"))).toEqual(["g0", "g1", "g2"]);
  queue.ended("a1", 0);
  expect(drain(queue, 0, false)).toEqual(["a2"]);
});

test("no type has more slots than its limit, and the other types go on", () => {
  const queue = schedule({ types: { x: { concurrency: 1 } } });
  for (const id of ["x1", "y1", "x2", "y2"]) queue.add(job(id, { type: id.slice(0, 1) }), 0);

  expect(drain(queue, 0, false).toSorted()).toEqual(["x1", "y1", "y2"]);
  queue.ended("x1", 0);
  expect(drain(queue, 0, false)).toEqual(["x2"]);
});

test("jobs of an ordering key go one at a time, and its head blocks it until its retry has ended", () => {
  const queue = schedule({ order: {} });
  for (const id of ["a1", "a2", "b1"]) queue.add(job(id, { orderingKey: id.slice(0, 1) }), 0);

  expect(drain(queue, 0, false)).toEqual(["a1", "b1"]);
  queue.waits("a1", 0);
  expect(drain(queue, 0, false)).toEqual([]);
  expect(queue.running).toBe(1);
  queue.add(job("a1", { orderingKey: "a", dispatch: 2 }), 0);
  expect(drain(queue, 0, false)).toEqual(["a1"]);
  queue.ended("a1", 0);
  expect(drain(queue, 0, false)).toEqual(["a2"]);
});

test("a head that is cancelled while it waits for its retry frees its key", () => {
  const queue = schedule({ order: {} });
  queue.add(job("a1", { orderingKey: "a" }), 0);
  queue.add(job("a2", { orderingKey: "a" }), 0);
  queue.pick(0);
  queue.waits("a1", 0);

  queue.ended("a1", 0);

  expect(drain(queue, 0)).toEqual(["a2"]);
});

test("in no stretch of time does more start than the bucket of a rate allows", () => {
  const queue = schedule({ rate: { limit: 100, burst: 10 } });
  for (let n = 0; n < 500; n += 1) queue.add(job(`j${n}`), 0);
  const starts: number[] = [];

  for (let nowMs = 0; nowMs <= 2_000; nowMs += 5) {
    starts.push(...drain(queue, nowMs).map(() => nowMs));
  }

  for (const [index, from] of starts.entries()) {
    for (const [later, to] of starts.slice(index).entries()) {
      expect(later + 1).toBeLessThanOrEqual(((to - from) * 100) / 1_000 + 10);
    }
  }
  expect(starts.length).toBeGreaterThan(190);
});

test("the rate of one key does not hold another one, and the clock opens it again", () => {
  const queue = schedule({ keys: { rate: { limit: 10, burst: 1 } } });
  for (let n = 0; n < 3; n += 1) queue.add(job(`a${n}`, { key: "a" }), 0);
  queue.add(job("b0", { key: "b" }), 0);

  expect(drain(queue, 0)).toEqual([]);
  expect(queue.opensAtMs(0)).toBeCloseTo(100, 0);
  expect(drain(queue, 101).toSorted()).toEqual(["a0", "b0"]);
  expect(drain(queue, 150)).toEqual([]);
  expect(drain(queue, 202)).toEqual(["a1"]);
});

test("nothing of a paused key or type goes, and all of it once it is resumed", () => {
  const queue = schedule({ keys: {} }, [
    { name: "a", paused: true },
    { kind: "type", name: "y", paused: true },
  ]);
  queue.add(job("a1", { key: "a" }), 0);
  queue.add(job("b1", { key: "b" }), 0);
  queue.add(job("b2", { key: "b", type: "y" }), 0);

  expect(drain(queue, 0)).toEqual(["b1"]);
  queue.apply(limits({ keys: {} }), 0);
  expect(drain(queue, 0).toSorted()).toEqual(["a1", "b2"]);
});

test("a breaker that is open holds its jobs alone; half open, one at a time goes, and after a rest", () => {
  const breakers = new BreakerViews();
  const queue = schedule({ types: { pay: { dependsOn: ["api"] } } }, [], breakers);
  for (const id of ["p1", "p2"]) queue.add(job(id, { type: "pay" }), 0);
  queue.add(job("other"), 0);

  breakers.apply({ api: "open" });
  expect(drain(queue, 0, false)).toEqual(["other"]);
  breakers.apply({ api: "half_open" });
  expect(drain(queue, 0, false)).toEqual(["p1"]);
  queue.ended("p1", 100);
  expect(drain(queue, 5_099, false)).toEqual([]);
  expect(queue.opensAtMs(5_099)).toBe(5_100);
  expect(drain(queue, 5_100, false)).toEqual(["p2"]);
});

test("jobs go at once when a probe has closed their breaker", () => {
  const breakers = new BreakerViews();
  const queue = schedule({ types: { pay: { dependsOn: ["api"] } } }, [], breakers);
  for (const id of ["p1", "p2", "p3"]) queue.add(job(id, { type: "pay" }), 0);
  breakers.apply({ api: "half_open" });
  expect(drain(queue, 0, false)).toEqual(["p1"]);
  queue.ended("p1", 100);

  breakers.apply({ api: "closed" });

  expect(drain(queue, 100, false)).toEqual(["p2", "p3"]);
});

test("a pick that was not written leaves everything as it was", () => {
  const queue = schedule({ keys: { concurrency: 1 }, order: {} });
  for (const id of ["a1", "a2"]) queue.add(job(id, { key: "k", orderingKey: "a" }), 0);
  const first = queue.pick(0);
  queue.waits("a1", 0);
  queue.add(job("a1", { key: "k", orderingKey: "a", dispatch: 2 }), 0);
  const again = queue.pick(0);

  if (again !== undefined) queue.unpick(again, true, 0);

  expect([first?.id, again?.dispatch]).toEqual(["a1", 2]);
  expect(queue.running).toBe(0);
  expect(drain(queue, 0)).toEqual(["a1", "a2"]);
});

test("a head whose row is not to be had for a moment is not overtaken, and the next goes once it is gone", () => {
  const queue = schedule({ keys: {}, order: {} });
  for (const id of ["a1", "a2", "a3"]) queue.add(job(id, { key: "k", orderingKey: "a" }), 0);
  const take = (): string | undefined => {
    const next = queue.pick(0);
    if (next !== undefined) queue.unpick(next, false, 0);
    return next?.id;
  };

  const tries = [take(), take()];
  queue.change("a1", job("a1", { key: "k", orderingKey: "a" }), 0);
  tries.push(take(), take());
  queue.change("a1", null, 0);

  expect(tries).toEqual(["a1", undefined, "a1", undefined]);
  expect(drain(queue, 0)).toEqual(["a2", "a3"]);
  expect(queue.isEmpty).toBe(true);
});

test("of a long lane only the first rows are in memory, and the rest is asked for in time", () => {
  const queue = schedule({ keys: {} });
  const jobs = Array.from({ length: laneMax + 500 }, (_, n) => job(`j${n}`));
  for (const each of jobs) queue.add(each, 0);

  const asked = [queue.cutLanes().length];
  const order: string[] = [];
  for (let next = queue.pick(0); next !== undefined; next = queue.pick(0)) {
    queue.ended(next.id, 0);
    order.push(next.id);
    for (const { lane, after, rows } of queue.cutLanes()) {
      const rest = jobs.filter(({ place: at }) => at > after).slice(0, rows);
      queue.refill(lane, rest, rest.length < rows, 0);
      asked.push(rows);
    }
  }

  expect(asked).toEqual([0, laneMax / 2, laneMax / 2]);
  expect(order).toEqual(jobs.map(({ id }) => id));
  expect(queue.isEmpty).toBe(true);
});

test("however many lanes there are, about 100,000 of their rows are in memory, and few are fetched at a time", () => {
  const queue = schedule({ keys: {} });
  const keys = 5_000;
  for (let n = 0; n < 60; n += 1) {
    for (let key = 0; key < keys; key += 1) queue.add(job(`j${n}-${key}`, { key: `k${key}` }), 0);
  }

  const gone = drain(queue, 0);
  const cut = queue.cutLanes();

  expect(gone).toHaveLength(100_000);
  expect(cut.reduce((sum, { rows }) => sum + rows, 0)).toBe(5_000);
});

test("a job whose priority was changed goes where it belongs now, and one that is gone does not go", () => {
  const queue = schedule({ priority: {} });
  const [a, b, c] = [job("a"), job("b"), job("c")];
  for (const each of [a, b, c]) queue.add(each, 0);

  queue.change("c", { ...c, priority: 9 }, 0);
  queue.change("a", null, 0);

  expect(drain(queue, 0)).toEqual(["c", "b"]);
});

test("of what waits in a new term, slots count and heads go before those that wait for them", () => {
  const queue = schedule({ keys: { concurrency: 1 }, order: {} });
  queue.restore({ ...job("run", { key: "k" }), waiting: false }, 0);
  queue.restore({ ...job("head", { key: "l", orderingKey: "o" }), waiting: true }, 0);
  queue.refill(
    "=o",
    [
      job("head", { key: "l", orderingKey: "o", dispatch: 2 }),
      job("next", { key: "l", orderingKey: "o" }),
    ],
    true,
    0,
  );
  queue.refill("0/t/k", [job("waits", { key: "k" })], true, 0);

  expect(drain(queue, 0, false)).toEqual(["head"]);
  queue.ended("head", 0);
  queue.ended("run", 0);
  expect(drain(queue, 0).toSorted()).toEqual(["next", "waits"]);
});

test("a queue dispatches no more than its workers can start", () => {
  const queue = schedule({ keys: {} });
  for (let n = 0; n < 9; n += 1) queue.add(job(`j${n}`), 0);
  queue.allow(4, 4);

  expect(drain(queue, 0, false)).toHaveLength(4);
});

test("a queue whose workers have enough dispatches nothing until a quarter of what is ahead has gone", () => {
  const queue = schedule({ keys: {} });
  for (let n = 0; n < 20; n += 1) queue.add(job(`j${n}`), 0);
  queue.allow(4, 12);

  const first = drain(queue, 0, false);
  expect(first).toHaveLength(12);
  queue.ended(first[0] ?? "", 0);
  expect(drain(queue, 0, false)).toHaveLength(0);
  queue.ended(first[1] ?? "", 0);
  expect(drain(queue, 0, false)).toHaveLength(2);
});

test("keys with limits of their own share by weight, though more could be dispatched ahead", () => {
  const settings = {
    keys: {
      concurrency: 4,
      tiers: { two: { concurrency: 8, weight: 2 }, four: { concurrency: 12, weight: 4 } },
    },
  } satisfies QueueSettings;
  const queue = schedule(settings, [
    { name: "b", tier: "two" },
    { name: "c", tier: "four" },
  ]);
  for (let n = 0; n < 50; n += 1) {
    for (const key of ["a", "b", "c"]) queue.add(job(`${key}${n}`, { key }), 0);
  }
  queue.lookAtShares();
  queue.allow(14, 40);

  const first = drain(queue, 0, false);
  const count = (key: string): number => first.filter((id) => id.startsWith(key)).length;

  // 0.8 of 21, with which the key "c" would be at its limit.
  expect([count("a"), count("b"), count("c")]).toEqual([2, 5, 9]);
});
