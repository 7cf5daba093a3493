import type { OutboxRow } from "@waybill/postgres";
import { expect, test } from "vitest";
import { failuresMax, parkedDispatch } from "./parking.ts";

const row = (kind: OutboxRow["kind"], failures: number): OutboxRow => ({
  tx: "1",
  seq: "2",
  id: "01890000-0000-7000-8000-000000000000",
  kind,
  dispatch: 1,
  queue: kind === "job" ? "email" : null,
  type: "t",
  version: 1,
  exchange: null,
  routing_key: null,
  payload: "{}",
  payload_base64: false,
  headers: null,
  priority: null,
  ordering_key: null,
  correlation_id: null,
  expires_at: null,
  enqueued_at: new Date(0),
  created_at: new Date(0),
  failures,
});

test("the delay doubles from one or two seconds to a minute, upper half at random", () => {
  const delays = [0, 1, 2, 5, 6, 50].map(
    (failures) =>
      parkedDispatch(row("job", failures), { status: "nacked", reason: "full" }, () => 0.999_999)
        .delayMs,
  );
  const least = parkedDispatch(
    row("job", 0),
    { status: "nacked", reason: "full" },
    () => 0,
  ).delayMs;

  expect(delays).toEqual([2_000, 4_000, 8_000, 60_000, 60_000, 60_000]);
  expect(least).toBe(1_000);
});

test("a message that can never be published waits for an operator in the end", () => {
  const outcome = { status: "refused", reason: "the body is too large" } as const;

  expect(parkedDispatch(row("job", failuresMax - 2), outcome, Math.random).delayMs).not.toBeNull();
  expect(parkedDispatch(row("job", failuresMax - 1), outcome, Math.random)).toMatchObject({
    reason: "refused",
    delayMs: null,
  });
});

test("a job without a queue, or whose exchange is missing, is tried for ever", () => {
  const missing = { status: "refused", reason: "NOT_FOUND - no exchange 'waybill.jobs'" } as const;

  for (const outcome of [missing, { status: "returned", reason: "no queue" } as const]) {
    expect(parkedDispatch(row("job", 500), outcome, Math.random)).toMatchObject({
      reason: "unroutable",
      delayMs: expect.any(Number) as number,
    });
  }
});

test("a route to an exchange that does not exist, and an event without a subscription, end", () => {
  const missing = { status: "refused", reason: "NOT_FOUND - no exchange 'x'" } as const;
  const returned = { status: "returned", reason: "no queue" } as const;

  expect(parkedDispatch(row("route", failuresMax), missing, Math.random).delayMs).toBeNull();
  expect(parkedDispatch(row("event", failuresMax), returned, Math.random).delayMs).toBeNull();
});
