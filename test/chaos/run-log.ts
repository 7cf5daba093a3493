/** The file in which a worker notes the runs of its handlers, and its reader. Times in milliseconds since 1970. */

import { openSync, readFileSync, writeSync } from "node:fs";

/** One run of a handler. */
export interface Run {
  readonly id: string;
  /** Queue or subscription. */
  readonly queue: string;
  /** Concurrency key; the empty text for none. */
  readonly key: string;
  /** Process of the worker. */
  readonly worker: string;
  readonly startMs: number;
  /** Undefined where its process ended first. */
  readonly endMs: number | undefined;
  /** `lost`: it was told to stop, since its lease was over or its worker stopped. */
  readonly outcome: "done" | "failed" | "lost" | undefined;
}

/** What a worker writes with. */
export interface RunLog {
  /** @returns to be called at the end of the run */
  start(run: Pick<Run, "id" | "queue" | "key">): (outcome: "done" | "failed" | "lost") => void;
  /** A plain handler has had its effect. */
  called(id: string): void;
}

/** Opens the log for writing: synchronously, so that what has happened is there after a SIGKILL. */
export function openRunLog(file: string): RunLog {
  const log = openSync(file, "a");
  let runs = 0;
  return {
    start({ id, queue, key }) {
      const run = (runs += 1);
      writeSync(log, `s ${run} ${Date.now()} ${id} ${queue} ${key}\n`);
      return (outcome) => void writeSync(log, `e ${run} ${Date.now()} ${outcome}\n`);
    },
    called: (id) => void writeSync(log, `c ${id}\n`),
  };
}

/** What the logs of all workers say. */
export interface Runs {
  /** In the order of their starts. */
  readonly runs: readonly Run[];
  /** How often each plain job had its effect. */
  readonly calls: ReadonlyMap<string, number>;
}

/** Reads the logs; `files` by the names of their workers. */
export function readRunLogs(files: ReadonlyMap<string, string>): Runs {
  const runs: Run[] = [];
  const calls = new Map<string, number>();
  for (const [worker, file] of files) {
    const open = new Map<string, Run>();
    // What comes after the last end of a line is a line that was cut.
    for (const line of readOr(file).split("\n").slice(0, -1)) {
      const [kind, first = "", time, third = "", queue = "", key = ""] = line.split(" ");
      if (kind === "c") {
        calls.set(first, (calls.get(first) ?? 0) + 1);
      } else if (kind === "s") {
        const startMs = Number(time);
        const start = { id: third, queue, key, worker, startMs, endMs: undefined };
        open.set(first, { ...start, outcome: undefined });
      } else {
        const start = open.get(first);
        if (start === undefined) throw new Error(`Run ${first} of ${file} ends before it starts.`);
        open.delete(first);
        runs.push({ ...start, endMs: Number(time), outcome: third as Run["outcome"] });
      }
    }
    runs.push(...open.values());
  }
  return { runs: runs.toSorted((a, b) => a.startMs - b.startMs), calls };
}

/** A worker that was killed at its start has no log. */
function readOr(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
