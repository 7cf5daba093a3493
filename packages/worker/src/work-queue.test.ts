import { expect, test } from "vitest";
import type { Incoming } from "./incoming.ts";
import { WorkQueue } from "./work-queue.ts";

const incoming = (key: string): Incoming => ({ key }) as Incoming;

test("no more is taken than there are free slots", () => {
  const queue = new WorkQueue("q", 2);
  for (const key of ["a", "b", "c"]) queue.push(incoming(key));
  queue.occupySlot();

  const first = queue.take(10, false);
  queue.occupySlot();
  const second = queue.take(10, false);

  expect(first.incoming.map(({ key }) => key)).toEqual(["a"]);
  expect(second.incoming).toEqual([]);
  expect(queue.waiting).toBe(2);
});

test("one suspect at most is taken, and only where it may be", () => {
  const queue = new WorkQueue("q", 5);
  queue.push(incoming("a"));
  for (const key of ["s1", "s2"]) queue.pushSuspect(incoming(key));

  const without = queue.take(1, false);
  const withOne = queue.take(5, true);

  expect(without).toMatchObject({ incoming: [{ key: "a" }], hasSuspect: false });
  expect(withOne).toMatchObject({ incoming: [{ key: "s1" }], hasSuspect: true });
  expect(queue.waiting).toBe(1);
});

test("what is put back comes first, and everything can be taken", () => {
  const queue = new WorkQueue("q", 5);
  queue.push(incoming("b"));
  queue.pushSuspect(incoming("s"));

  queue.putBack([incoming("a")]);

  expect(queue.takeAll().map(({ key }) => key)).toEqual(["s", "a", "b"]);
  expect(queue.waiting).toBe(0);
});

const keysOf = (queue: WorkQueue): readonly string[] =>
  queue.take(100, false).incoming.map(({ key }) => key);

test("no more is taken than the share of the limit, and nothing while the queue is shut", () => {
  const queue = new WorkQueue("q", 5);
  for (const key of ["a", "b", "c", "d"]) queue.push(incoming(key));

  queue.setGate(2);
  const shared = keysOf(queue);
  queue.setShut(true);
  const shut = keysOf(queue);
  queue.setShut(false);

  expect([shared, shut, keysOf(queue)]).toEqual([["a", "b"], [], ["c", "d"]]);
});

test.each([
  ["as many as end in a burst and while two claims are on their way", 2, 10, 5, 6],
  ["one of jobs that run for a while", 2, 100, 5, 1],
  ["four times the share at most", 2, 1, 100, 8],
  ["none of jobs that run for long", 2, 5_000, 50, 0],
  ["none where there is no limit", Number.POSITIVE_INFINITY, 1, 100, 0],
])("of quick jobs some are claimed ahead: %s", (_, gate, runMs, claimMs, ahead) => {
  const queue = new WorkQueue("q", 10);
  queue.setGate(gate);
  queue.noteClaim(claimMs);
  queue.occupySlot();
  queue.beginRun();
  queue.endRun(runMs);
  queue.freeSlot();

  expect(queue.ahead).toBe(ahead);
});

test("a change of the slots is told, and shows when they are all taken", () => {
  const queue = new WorkQueue("q", 5);
  const limits: number[] = [];
  queue.onLimitChange = () => limits.push(queue.limit);
  queue.occupySlot();

  queue.setGate(1);
  const full = queue.fullSinceMs;
  queue.setGate(1);
  queue.setGate(7);

  expect(limits).toEqual([1, 5]);
  expect(full).toBeDefined();
  expect(queue.fullSinceMs).toBeUndefined();
});
