import * as fc from "fast-check";
import { expect, test } from "vitest";

import { type Settlement, SettleLedger } from "./settle-ledger.ts";

function ledgerOf(count: number): SettleLedger {
  const ledger = new SettleLedger();
  for (let tag = 1; tag <= count; tag += 1) ledger.delivered(tag);
  return ledger;
}

test("acks of a contiguous prefix are one frame", () => {
  const ledger = ledgerOf(5);
  for (const tag of [3, 1, 2]) ledger.settle(tag, "ack");

  expect(ledger.flush()).toEqual([{ kind: "ack", tag: 3, multiple: true }]);
  expect(ledger.flush()).toEqual([]);
});

test("an ack behind a running delivery goes out alone", () => {
  const ledger = ledgerOf(20);
  ledger.settle(20, "ack");

  expect(ledger.flush()).toEqual([{ kind: "ack", tag: 20, multiple: false }]);
  expect(ledger.unsettled).toBe(19);
});

test("rejections go out singly and before the acks that cover their tags", () => {
  const ledger = ledgerOf(4);
  ledger.settle(1, "ack");
  ledger.settle(2, "requeue");
  ledger.settle(3, "deadLetter");
  ledger.settle(4, "ack");

  expect(ledger.flush()).toEqual([
    { kind: "nack", tag: 2, requeue: true },
    { kind: "nack", tag: 3, requeue: false },
    { kind: "ack", tag: 4, multiple: true },
  ]);
});

test("a multiple ack ends at a tag that is acked now, never at one settled before", () => {
  const ledger = ledgerOf(3);
  ledger.settle(2, "ack");
  ledger.settle(3, "deadLetter");
  ledger.flush();
  ledger.settle(1, "ack");

  expect(ledger.flush()).toEqual([{ kind: "ack", tag: 1, multiple: false }]);
});

test("a second settlement of a delivery is refused", () => {
  const ledger = ledgerOf(1);

  expect(ledger.settle(1, "ack")).toBe(true);
  expect(ledger.settle(1, "requeue")).toBe(false);
  expect(ledger.settle(7, "ack")).toBe(false);
});

test("whatever the order, the broker sees each delivery settled once and as asked", () => {
  const settlements = fc.constantFrom<Settlement | "flush">(
    "ack",
    "ack",
    "requeue",
    "deadLetter",
    "flush",
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(29), settlements), { maxLength: 80 }), (steps) => {
      const ledger = ledgerOf(30);
      const asked = new Map<number, string>();
      const seen = new Map<number, string>();
      const put = (tag: number, what: string): void => {
        expect(seen.has(tag)).toBe(false);
        seen.set(tag, what);
      };
      const flush = (): void => {
        for (const frame of ledger.flush()) {
          if (frame.kind === "nack") {
            put(frame.tag, frame.requeue ? "requeue" : "deadLetter");
          } else {
            put(frame.tag, "ack");
            for (let tag = 1; frame.multiple && tag < frame.tag; tag += 1) {
              if (!seen.has(tag)) seen.set(tag, "ack");
            }
          }
        }
      };
      for (const [index, what] of steps) {
        const tag = index + 1;
        if (what === "flush") flush();
        else if (ledger.settle(tag, what)) asked.set(tag, what);
      }
      flush();

      expect([...seen].sort(([a], [b]) => a - b)).toEqual([...asked].sort(([a], [b]) => a - b));
    }),
    { numRuns: 50 },
  );
});
