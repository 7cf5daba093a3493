import { execFileSync, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { killTree } from "../../scripts/services/processes.ts";
import { eventually } from "../support/index.ts";

/** Process ids of all whose command line ends with the text. */
function pidsOf(text: string): number[] {
  const table = execFileSync("ps", ["-A", "-o", "pid=,args="], { encoding: "utf8" });
  return table
    .split("\n")
    .filter((line) => line.endsWith(text))
    .map((line) => Number.parseInt(line, 10));
}

test("a tree that is killed while it starts processes leaves none of them behind", async () => {
  const mark = `${randomInt(100_000, 1_000_000)}.5`;
  const script = `for n in $(seq 4000); do sleep ${mark} & done; wait`;
  const parent = spawn("bash", ["-c", script], { stdio: "ignore" });
  await eventually(() => pidsOf(mark).length > 100);

  await killTree(parent.pid ?? 0);

  const left = pidsOf(mark);
  for (const pid of left) process.kill(pid, "SIGKILL");
  expect(left).toEqual([]);
});
