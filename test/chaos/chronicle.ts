/** What was done in a run, and when. Times in milliseconds since 1970. */

import { openSync, writeSync } from "node:fs";
import { join } from "node:path";

/** A time in which something that takeovers need was away or slow. */
export interface Disturbance {
  /** `broker` and `database`: it was killed, and answered again at the end. */
  readonly what: "broker" | "database" | "link" | "freeze" | "alarm";
  readonly fromMs: number;
  /** Undefined while it goes on. */
  toMs: number | undefined;
}

/** See the head of the file. */
export interface Chronicle {
  readonly counts: { process: number; broker: number; database: number; cuts: number };
  readonly disturbances: readonly Disturbance[];
  /** Writes a line with the time in front into `faults.log`. */
  note(text: string): void;
  /** @returns to be called at its end */
  disturb(what: Disturbance["what"]): () => void;
}

/** Begins one in a directory. */
export function openChronicle(directory: string): Chronicle {
  const file = openSync(join(directory, "faults.log"), "a");
  const disturbances: Disturbance[] = [];
  return {
    counts: { process: 0, broker: 0, database: 0, cuts: 0 },
    disturbances,
    note: (text) => void writeSync(file, `${new Date().toISOString()} ${text}\n`),
    disturb(what) {
      const one: Disturbance = { what, fromMs: Date.now(), toMs: undefined };
      disturbances.push(one);
      return () => {
        one.toMs ??= Date.now();
      };
    },
  };
}
