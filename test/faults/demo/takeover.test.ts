/** The measurement of takeovers, as it is started by hand, with few deaths and a short lease. */

import { expect, test } from "vitest";
import { percentile } from "../../../bench/percentile.ts";
import { runScript, type ScriptRun } from "../../demo/run-script.ts";

const runBench = (...args: string[]): Promise<ScriptRun> =>
  runScript("bench/takeover/takeover.ts", ...args);

test("jobs of killed and of frozen workers start elsewhere and have one effect each, and what a woken worker writes is refused", async () => {
  const { code, stdout, stderr } = await runBench(
    "--kills",
    "2",
    "--freezes",
    "1",
    "--lease",
    "3s",
  );

  expect(stderr).toBe("");
  expect(stdout.trimEnd().split("\n").at(-1)).toMatch(
    /^takeover: crash p50=\d+ms p99=\d+ms, frozen p50=\d+\.\ds p99=\d+\.\ds \(n=3\)$/,
  );
  expect(stdout).toMatch(/ jobs, 0 lost, 0 doubled; [1-9]\d* late effects refused/);
  expect(code).toBe(0);
}, 180_000);

test("the measurement of takeovers refuses a wrong option with exit code 2 and says which", async () => {
  const runs = await Promise.all([runBench("--lease", "15"), runBench("--kills", "1")]);

  expect(runs.map(({ code }) => code)).toEqual([2, 2]);
  expect(runs[0]?.stderr).toContain("--lease");
  expect(runs[1]?.stderr).toContain("--kills");
});

test("percentiles of takeovers are by nearest rank: values that were measured", () => {
  const values = Array.from({ length: 60 }, (_, n) => 60 - n);

  expect(percentile(values, 50)).toBe(30);
  expect(percentile(values, 99)).toBe(60);
  expect(percentile([7], 99)).toBe(7);
  expect(percentile([2, 1], 50)).toBe(1);
  expect(() => percentile([], 50)).toThrow(RangeError);
});
