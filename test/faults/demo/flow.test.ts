/** The demo of flow control, as it is started by hand; and its checks of the books. */

import { expect, test } from "vitest";
import {
  type Attempt,
  mostAtOnce,
  notHeldBack,
  outOfOrder,
  overLimit,
  sharesOf,
} from "../../../examples/tenants/src/run/checks.ts";
import { runScript, type ScriptRun } from "../../demo/run-script.ts";

const runFlow = (...args: string[]): Promise<ScriptRun> =>
  runScript("examples/tenants/src/flow.ts", ...args);

test("the demo of flow control keeps limits, order and shares, spends no attempt on an open breaker and starts nothing in a pause", async () => {
  const { code, stdout, stderr } = await runFlow();

  expect(stderr).toBe("");
  expect(stdout.trimEnd().split("\n").at(-1)).toMatch(
    /^flow: 1200 jobs, 0 over limits, 0 out of order, shares within \d+ %, breaker opened [1-9]\d* times with 0 attempts spent$/,
  );
  expect(stdout).toMatch(/breaker open: \d+ of \d+ attempts failed/);
  expect(stdout).toContain("billing is paused");
  expect(code).toBe(0);
}, 180_000);

test("the demo of flow control refuses a wrong option with exit code 2 and says which", async () => {
  const { code, stdout, stderr } = await runFlow("--jobs", "3");

  expect(code).toBe(2);
  expect(stdout).toBe("");
  expect(stderr).toContain("--jobs");
});

function attempt(startedMs: number, endedMs: number, more: Partial<Attempt> = {}): Attempt {
  return {
    jobId: `job ${startedMs}`,
    type: "work",
    tenant: "one",
    account: null,
    entry: null,
    dispatchedMs: startedMs - 1,
    startedMs,
    endedMs,
    succeeded: true,
    ...more,
  };
}

test("a start beyond a limit is found, and one at the very end of another is within it", () => {
  const limit = { name: "the limit", counts: () => true, most: 1 };

  expect(overLimit([attempt(0, 10), attempt(10, 20)], limit)).toEqual([]);
  expect(overLimit([attempt(0, 10), attempt(9, 20)], limit)).toEqual([
    { jobId: "job 9", fact: "2 ran at once: the limit is 1" },
  ]);
  expect(overLimit([attempt(0, Infinity), attempt(99, 100)], limit)).toHaveLength(1);
  expect(overLimit([attempt(0, 10), attempt(5, 9)], { ...limit, counts: () => false })).toEqual([]);
  expect(mostAtOnce([attempt(0, 10), attempt(5, 9), attempt(6, 8), attempt(9, 11)])).toBe(3);
});

test("a job that starts before the one before it in its account has succeeded is found, also before its retry", () => {
  const of = (entry: number, startedMs: number, endedMs: number, succeeded = true): Attempt =>
    attempt(startedMs, endedMs, { account: "a", entry, succeeded });

  expect(outOfOrder([of(0, 0, 1, false), of(0, 5, 6), of(1, 6, 7), attempt(3, 4)])).toEqual([]);
  expect(outOfOrder([of(0, 0, 1, false), of(1, 2, 3), of(0, 5, 6)])).toHaveLength(1);
  expect(outOfOrder([of(1, 0, 1), of(0, 2, 3)])).toHaveLength(1);
  expect(outOfOrder([of(0, 0, 5), of(1, 4, 8)])).toHaveLength(1);
});

test("a job that is dispatched in a period in which it had to wait is found, from half a second on", () => {
  const periods = [{ fromMs: 1_000, untilMs: 3_000 }];
  const at = (dispatchedMs: number): Attempt => attempt(2_000, 2_001, { dispatchedMs });

  expect(notHeldBack([at(999), at(1_400), at(3_000)], periods, "the pause")).toEqual([]);
  expect(notHeldBack([at(1_700)], periods, "the pause")).toEqual([
    { jobId: "job 2000", fact: "dispatched 700 ms after the pause" },
  ]);
});

test("shares are counted while every tenant has work, against its weight", () => {
  const starts = (tenant: string, ...times: number[]): Attempt[] =>
    times.map((startedMs) => attempt(startedMs, startedMs + 1, { tenant }));

  const shares = sharesOf(
    [...starts("big", 10, 11, 12, 13, 14, 15), ...starts("small", 1, 2, 3, 11.5, 14.5, 30, 31)],
    { big: 2, small: 1 },
  );

  // From the later first start at 10 to the earlier last one at 15.
  expect(shares.starts).toEqual({ big: 5, small: 2 });
  expect(shares.due["big"]).toBeCloseTo(14 / 3);
  expect(shares.deviation).toBeCloseTo(1 / 7);
  expect(shares.deviationJobs).toBeCloseTo(1 / 3);
});
