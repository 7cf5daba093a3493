import { percentile } from "../percentile.ts";
import type { Kind } from "./crew.ts";

/** What one death came to. */
export interface Death {
  readonly kind: Kind;
  /** Jobs that the worker ran. */
  readonly jobs: number;
  /** Until the last of them had started elsewhere, in milliseconds. */
  readonly takeoverMs: number;
  /** Until the last of them was dispatched again; undefined where the broker gave all of them on. */
  readonly dispatchedMs: number | undefined;
}

const milliseconds = (ms: number): string => `${Math.round(ms)}ms`;
const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)}s`;

function spread(values: readonly number[], unit: (ms: number) => string): string {
  return `p50=${unit(percentile(values, 50))} p99=${unit(percentile(values, 99))}`;
}

const takeovers = (deaths: readonly Death[]): readonly number[] =>
  deaths.map(({ takeoverMs }) => takeoverMs);

const words: Readonly<Record<Kind, string>> = {
  held: "deliveries held",
  leased: "without deliveries",
};

/** A line for each kind of job. */
export function detailLines(
  name: string,
  deaths: readonly Death[],
  unit: "ms" | "s",
): readonly string[] {
  const format = unit === "ms" ? milliseconds : seconds;
  return (["held", "leased"] as const).flatMap((kind) => {
    const some = deaths.filter((death) => death.kind === kind);
    if (some.length === 0) return [];
    const jobs = some.reduce((sum, death) => sum + death.jobs, 0);
    const dispatched = some.flatMap(({ dispatchedMs }) => dispatchedMs ?? []);
    const relay =
      dispatched.length === 0
        ? "given on by the broker"
        : `dispatched again by the relay in ${dispatched.length} of ${some.length}: ${spread(dispatched, format)}`;
    return [
      `  ${`${name}, ${words[kind]}`.padEnd(28)} ${spread(takeovers(some), format)} (n=${some.length}, ${jobs} jobs; ${relay})`,
    ];
  });
}

/** The last line. */
export function summary(crashes: readonly Death[], freezes: readonly Death[]): string {
  const n = crashes.length + freezes.length;
  return `takeover: crash ${spread(takeovers(crashes), milliseconds)}, frozen ${spread(takeovers(freezes), seconds)} (n=${n})`;
}
