/** What the workers wrote about the runs of their handlers. */

import { readFile } from "node:fs/promises";

/** One run of a handler; times in microseconds by the monotonic clock. */
export interface Run {
  readonly n: number;
  readonly type: string;
  readonly key: string;
  /** When it was enqueued, where its payload says so; else 0. */
  readonly enqueuedUs: number;
  readonly startUs: number;
  readonly endUs: number;
  readonly outcome: "succeeded" | "failed" | "killed";
}

/** The log of one worker process. */
export interface WorkerLog {
  readonly file: string;
  /** When the process was seen to be gone; undefined: it lives. */
  killedUs: number | undefined;
}

/**
 * Reads all runs. One without an end has ended with its process.
 *
 * @param isCut true where handlers still run, whose runs are left out
 * @throws Error for a run without an end in a process that was not killed, else
 */
export async function readRuns(
  logs: readonly WorkerLog[],
  isCut: boolean,
): Promise<readonly Run[]> {
  const runs: Run[] = [];
  for (const { file, killedUs } of logs) {
    const open = new Map<string, Omit<Run, "endUs" | "outcome">>();
    const text = await readFile(file, "utf8").catch(() => "");
    // What comes after the last end of a line is a line that was cut.
    for (const line of text.split("\n").slice(0, -1)) {
      const [kind, run = "", time, a = "", n, type = "", ...key] = line.split(" ");
      if (kind === "s") {
        open.set(run, {
          n: Number(n),
          type,
          key: key.join(" "),
          enqueuedUs: Number(a),
          startUs: Number(time),
        });
        continue;
      }
      const start = open.get(run);
      if (start === undefined) throw new Error(`Run ${run} of ${file} ends before it starts.`);
      open.delete(run);
      runs.push({ ...start, endUs: Number(time), outcome: a === "1" ? "succeeded" : "failed" });
    }
    for (const start of open.values()) {
      if (killedUs === undefined && isCut) continue;
      if (killedUs === undefined) throw new Error(`Job ${start.n} started and did not end.`);
      runs.push({ ...start, endUs: killedUs, outcome: "killed" });
    }
  }
  return runs.toSorted((a, b) => a.startUs - b.startUs);
}
