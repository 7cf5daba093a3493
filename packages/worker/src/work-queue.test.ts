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
