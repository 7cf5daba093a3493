/**
 * The whole line under schedules by chance: producers, zombie relays, a broker that reorders, doubles
 * and drops what it has not confirmed, workers that die, freeze and lose answers, operators; then the
 * faults end, and every committed job must end as it should.
 */

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { patienceMs, schedules } from "./schedules.ts";
import { World } from "./world.ts";
import type { PublishFate } from "./world-relay.ts";
import type { Answer, CommitFate, HandlerEnd } from "./world-worker.ts";

const pick = fc.nat({ max: 5 });
const answer = fc.constantFrom<Answer>("ok", "ok", "ok", "lost", "refused");

/** What may happen, with how often. */
const happening = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("enqueue" as const),
      session: pick,
      key: fc.constantFrom(null, null, "a", "b"),
      bytes: fc.integer({ min: 1, max: 9 }),
      lifeMs: fc.constantFrom(null, null, null, 2_000),
      script: fc.record({
        isTransactional: fc.boolean(),
        behaviour: fc.constantFrom("works", "works", "works", "works", "fails", "kills"),
      }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("end transaction" as const),
      session: pick,
      commit: fc.constantFrom(true, true, true, false),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("begin statement" as const),
      session: fc.integer({ min: -3, max: -1 }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant("serve" as const), relay: pick }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("read", "publish", "publish", "save"),
      relay: pick,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("publish settles" as const),
      relay: pick,
      pick,
      fate: fc.constantFrom<PublishFate>(
        "confirm",
        "confirm",
        "keep",
        "drop",
        "nacked",
        "returned",
        "refused",
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("start relay", "double"), pick }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("start worker" as const), hasLock: fc.boolean() }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant("receive" as const), worker: pick, pick }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      worker: pick,
      pick,
      answer,
      isLate: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("handler ends" as const),
      worker: pick,
      pick,
      how: fc.constantFrom<HandlerEnd>(
        "returns",
        "returns",
        "returns",
        "throws",
        "gives up",
        "asks for time",
      ),
      commit: fc.constantFrom<CommitFate>("ok", "ok", "rolled back", "lost", "lost in vain"),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("settle", "settle", "lease"),
      worker: pick,
      pick,
      answer,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("heartbeat", "heartbeat", "lookForRequests"),
      worker: pick,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("kill", "freeze", "thaw", "stop", "retire", "disconnect", "loseLock"),
      worker: pick,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("keep house" as const),
      what: fc.constantFrom("timers", "leases", "sweep"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("operate" as const),
      what: fc.constantFrom("cancel", "retry", "move back"),
      pick,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("time" as const),
      ms: fc.constantFrom(10, 600, 4_000, 16_000),
    }),
  },
);
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;

function happen(world: World, step: Happening): void {
  switch (step.do) {
    case "enqueue":
      return world.enqueue(step);
    case "end transaction":
      return world.endTransaction(step.session, step.commit);
    case "begin statement":
      return world.outbox.begin(step.session);
    case "serve":
    case "read":
    case "publish":
    case "save":
      return world.relay(step.relay)?.[step.do]();
    case "publish settles":
      return world.relay(step.relay)?.settle(step.pick, step.fate);
    case "start relay":
      return world.startRelay();
    case "double":
      return world.queue.double(step.pick);
    case "start worker":
      return world.startWorker(step.hasLock);
    case "keep house":
      return world.keepHouse(step.what);
    case "operate":
      return world.operate(step.what, step.pick);
    case "time":
      world.jobs.nowMs += step.ms;
      return;
    default:
      return happenToWorker(world, step);
  }
}

function happenToWorker(world: World, step: Extract<Happening, { readonly worker: number }>): void {
  const worker = world.worker(step.worker);
  if (worker === undefined) return;
  // The broker and the kernel need no answer of a frozen process.
  if (worker.isFrozen && !["kill", "thaw", "disconnect", "loseLock"].includes(step.do)) return;
  switch (step.do) {
    case "receive":
      return worker.receive(step.pick);
    case "claim":
      return worker.claim(step.pick, step.answer, step.isLate);
    case "handler ends":
      return world.runHandler(worker, step.pick, step.how, step.commit);
    case "settle":
    case "lease":
      return worker[step.do](step.pick, step.answer);
    case "freeze":
    case "thaw":
      worker.isFrozen = step.do === "freeze";
      return;
    default:
      return worker[step.do]();
  }
}

test(
  "every committed job ends once, as its last attempt says, and nothing else does",
  { timeout: patienceMs },
  () => {
    fc.assert(
      fc.property(
        fc.array(happening, { maxLength: 120, size: "max" }),
        fc.integer({ min: 1, max: 8 }),
        fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constant(1_000)),
        (steps, rows, bytes) => {
          const world = new World({ rows, bytes });
          world.startRelay();
          world.startWorker(true);
          for (const step of steps) world.act(() => happen(world, step));
          expect(world.drain()).toEqual([]);
        },
      ),
      schedules(8_000),
    );
  },
);
