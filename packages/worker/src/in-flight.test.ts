import type { Envelope } from "@waybill/core";
import type { Delivery } from "@waybill/rabbitmq";
import { expect, test } from "vitest";
import { InFlight } from "./in-flight.ts";
import type { Incoming } from "./incoming.ts";

/** A delivery of one job. */
function copy(dispatch: number, generationAlive = true): Incoming {
  const delivery = { generationAlive } as Delivery;
  const envelope = { dispatch } as Envelope;
  return { delivery, envelope, key: "queue\njob", parkedAt: null, receivedAt: 0 };
}

test("a retry that overtakes the answer to its failure is claimed when the job has landed", () => {
  const inFlight = new InFlight();
  const retry = copy(2);
  inFlight.add(copy(1));
  inFlight.endHandler(retry.key);

  expect(inFlight.keepSuccessor(retry)).toBe(true);
  expect(inFlight.remove(retry.key)).toBe(retry);
});

test("a later dispatch of a job whose handler still runs is not kept in memory", () => {
  const inFlight = new InFlight();
  inFlight.add(copy(1));

  expect(inFlight.keepSuccessor(copy(2))).toBe(false);
});

test("a stale copy of a job is not kept beside its living delivery", () => {
  const inFlight = new InFlight();
  const first = copy(1);
  inFlight.add(first);
  inFlight.endHandler(first.key);

  expect(inFlight.keepSuccessor(copy(1))).toBe(false);
});

test("a copy takes the place of a delivery that was lost with its connection", () => {
  const inFlight = new InFlight();
  const again = copy(1);
  inFlight.add(copy(1, false));

  expect(inFlight.keepSuccessor(again)).toBe(true);
  expect(inFlight.remove(again.key)).toBe(again);
});

test("a job that goes on without its delivery gives up the copy that was kept, and keeps no other", () => {
  const inFlight = new InFlight();
  const again = copy(1);
  inFlight.add(copy(1, false));
  inFlight.keepSuccessor(again);

  expect(inFlight.lease(again.key)).toBe(again);
  expect(inFlight.keepSuccessor(copy(1))).toBe(false);
  expect(inFlight.remove(again.key)).toBeUndefined();
});

test("a retry of a job without a delivery that overtakes the answer to its failure is kept", () => {
  const inFlight = new InFlight();
  const retry = copy(2);
  inFlight.add(copy(1, false));
  inFlight.lease(retry.key);
  inFlight.endHandler(retry.key);

  expect(inFlight.keepSuccessor(retry)).toBe(true);
});
