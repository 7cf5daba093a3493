import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  inboxStepMs,
  outboxStepMs,
  partitionName,
  stretchAt,
  uncovered,
} from "./partition-plan.ts";

const day = 86_400_000;
const at = (text: string): Date => new Date(text);

test("the outbox has a partition a day, and fewer and longer ones for a long retention", () => {
  expect(outboxStepMs(3 * day)).toBe(day);
  expect(outboxStepMs(3_600_000)).toBe(day);
  expect(outboxStepMs(30 * day)).toBe(10 * day);
  expect(inboxStepMs(14 * day)).toBe(7 * day);
  expect(inboxStepMs(90 * day)).toBe(35 * day);
});

test("days begin at midnight and weeks on Mondays, UTC", () => {
  const instant = at("2026-11-29T23:59:59.999Z").getTime();

  expect(stretchAt(instant, day)).toEqual({ lower: at("2026-11-29"), upper: at("2026-11-30") });
  expect(stretchAt(instant, 7 * day)).toEqual({ lower: at("2026-11-23"), upper: at("2026-11-30") });
});

test("new partitions never overlap existing ones and cover the stretch with them", () => {
  const stretch = fc.tuple(fc.nat({ max: 40 }), fc.integer({ min: 1, max: 5 }));
  fc.assert(
    fc.property(fc.array(stretch, { maxLength: 6 }), (seeds) => {
      const existing: { lower: Date; upper: Date }[] = [];
      for (const [start, length] of seeds) {
        const lower = new Date(start * day);
        const upper = new Date((start + length) * day);
        if (!existing.some((other) => lower < other.upper && other.lower < upper)) {
          existing.push({ lower, upper });
        }
      }
      const wanted = { lower: new Date(10 * day), upper: new Date(30 * day) };
      const gaps = uncovered(wanted, existing);
      const all = [...existing, ...gaps];
      for (let t = 10 * day; t < 30 * day; t += day / 2) {
        expect(
          all.filter(({ lower, upper }) => lower.getTime() <= t && t < upper.getTime()),
        ).toHaveLength(1);
      }
      for (const { lower, upper } of gaps) {
        expect(lower >= wanted.lower && upper <= wanted.upper && lower < upper).toBe(true);
      }
    }),
  );
});

test("a partition is named after its beginning", () => {
  expect(partitionName("outbox", at("2026-11-30"))).toBe("outbox_20261130");
  expect(partitionName("inbox", at("2026-11-30T12:30:00Z"))).toBe("inbox_20261130_1230");
});
