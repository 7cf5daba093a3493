import * as fc from "fast-check";
import { expect, test } from "vitest";
import { PageLedger } from "./page-ledger.ts";
import { firstCursor } from "./window-planner.ts";

test("the cursor never passes a page with an unsettled row, in whatever order pages settle", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: 4 }), { minLength: 1, maxLength: 12 }),
      fc.infiniteStream(fc.nat()),
      (sizes, picks) => {
        const ledger = new PageLedger();
        const pages = sizes.map((rows, n) => ledger.add({ ...firstCursor, seq: String(n) }, rows));
        const left = sizes.flatMap((rows, n) => Array.from({ length: rows }, () => n));
        const unsettled = [...sizes];
        let reached = -1;
        const check = (): void => {
          reached = Number(ledger.take()?.seq ?? reached);
          const firstOpen = unsettled.findIndex((rows) => rows > 0);
          expect(reached).toBe((firstOpen === -1 ? sizes.length : firstOpen) - 1);
        };
        check();
        while (left.length > 0) {
          const [n] = left.splice((picks.next().value ?? 0) % left.length, 1);
          const page = pages[n ?? 0];
          if (page === undefined || n === undefined) break;
          ledger.settle(page);
          unsettled[n] = (unsettled[n] ?? 0) - 1;
          check();
        }
        expect(ledger.size).toBe(0);
      },
    ),
  );
});

test("a row that is settled twice is an error", () => {
  const ledger = new PageLedger();
  const page = ledger.add(firstCursor, 1);
  ledger.settle(page);

  expect(() => ledger.settle(page)).toThrow(RangeError);
});
