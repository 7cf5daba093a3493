import { percentile } from "../../bench/percentile.ts";
import type { Finding } from "./books.ts";
import type { Chronicle } from "./chronicle.ts";
import type { Fault } from "./questions.ts";

/** What a run came to. */
export interface Result {
  readonly seed: number;
  readonly jobs: number;
  readonly counts: Chronicle["counts"];
  readonly findings: readonly Finding[];
  readonly takeoversMs: readonly number[];
  readonly recoveriesMs: readonly number[];
}

/** True where nothing was found. */
export function isGreen({ findings }: Result): boolean {
  return findings.length === 0;
}

const p99 = (values: readonly number[], unitMs: number, digits: number): string =>
  values.length === 0 ? "none" : (percentile(values, 99) / unitMs).toFixed(digits);

/** The line that a run ends with; `broken` is only there where something is. */
export function lastLine({
  seed,
  jobs,
  counts,
  findings,
  takeoversMs,
  recoveriesMs,
}: Result): string {
  const sum = (fault: Fault): number =>
    findings.filter((one) => one.fault === fault).reduce((all, { count }) => all + count, 0);
  const broken = sum("broken");
  return [
    `chaos: seed=${seed} jobs=${jobs}`,
    `kills=${counts.process}/${counts.broker}/${counts.database} cuts=${counts.cuts}`,
    `lost=${sum("lost")} doubled=${sum("doubled")} ghosts=${sum("ghosts")}`,
    ...(broken > 0 ? [`broken=${broken}`] : []),
    `takeover_p99=${p99(takeoversMs, 1, 0)} recovered_p99=${p99(recoveriesMs, 1_000, 1)}`,
  ].join(" ");
}
