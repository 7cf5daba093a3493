import type { Services } from "../../../../scripts/services/index.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import type { Offence } from "./checks.ts";
import type { FlowOptions } from "./options.ts";
import { sharesFit, type Verdict } from "./verdict.ts";

/** Jobs that are named of each kind of offence. */
const namedMax = 10;

const percent = (part: number): number => Math.ceil(100 * part - 1e-9);

/** The last line of the demo. */
export function summary(verdict: Verdict): string {
  const { jobs, overLimits, outOfOrder, shares, opened, spent } = verdict;
  return (
    `flow: ${jobs} jobs, ${overLimits.length} over limits, ${outOfOrder.length} out of order, ` +
    `shares within ${percent(shares.deviation)} %, ` +
    `breaker opened ${opened} times with ${spent.length} attempts spent`
  );
}

function row(name: string, figure: string | number, remark: string): string {
  return `  ${name.padEnd(22)}${String(figure).padStart(9)}   ${remark}`.trimEnd();
}

function shareRows({ shares, firstWaitMs }: Verdict): readonly string[] {
  return Object.entries(shares.starts).map(([tenant, starts]) =>
    row(
      `  ${tenant}`,
      starts,
      `of ${(shares.due[tenant] ?? 0).toFixed(1)} by its weight; its first job waited ${Math.round(firstWaitMs[tenant] ?? NaN)} ms`,
    ),
  );
}

/** The books as lines of text. */
function lines(verdict: Verdict): readonly string[] {
  const { most, failedCharges, startedMeanwhile, inPause } = verdict;
  return [
    row("jobs", verdict.jobs, `in ${verdict.attempts} attempts`),
    row("at once, at most", most.ran, `of ${most.allowed} over all workers`),
    row("over limits", verdict.overLimits.length, "of the queue, of a tenant, of charges"),
    row("out of order", verdict.outOfOrder.length, "within an account"),
    row("while all had work", "", "jobs started"),
    ...shareRows(verdict),
    row(
      "breaker opened",
      verdict.opened,
      `closed again; ${failedCharges} charges failed before, and as probes`,
    ),
    row("  attempts spent", verdict.spent.length, "by charges, while it was open"),
    row("  others started", startedMeanwhile, "which do not need the provider"),
    row("started in the pause", inPause.length, ""),
  ];
}

function tell(screen: Screen, what: string, offences: readonly Offence[]): void {
  if (offences.length === 0) return;
  screen.line(`  ${what}:`);
  for (const { jobId, fact } of offences.slice(0, namedMax))
    screen.line(`    job ${jobId} ${fact}`);
  if (offences.length > namedMax) screen.line(`    and ${offences.length - namedMax} more`);
}

/** What was not kept to, with the jobs; nothing where all was. */
export function reportOffences(screen: Screen, verdict: Verdict): void {
  tell(screen, "over limits", verdict.overLimits);
  tell(screen, "out of order", verdict.outOfOrder);
  tell(screen, "attempts spent while the breaker was open", verdict.spent);
  tell(screen, "started while the queue was paused", verdict.inPause);
  tell(screen, "not as the books say", verdict.unaccounted);
  for (const fact of verdict.notShown) screen.line(`  ${fact}`);
  if (!sharesFit(verdict)) screen.line("  the shares are not those of the weights");
}

/** The books for people; the last line is the summary. */
export function report(screen: Screen, verdict: Verdict): void {
  screen.heading("Books, written by the handlers");
  for (const line of lines(verdict)) screen.line(line);
  reportOffences(screen, verdict);
  screen.line();
  screen.line(summary(verdict));
}

/** The books for programs: one object, the only thing on stdout. */
export function reportJson(options: FlowOptions, services: Services, verdict: Verdict): void {
  const object = {
    ...verdict,
    seed: options.seed,
    summary: summary(verdict),
    services: { source: services.source, why: services.why },
  };
  process.stdout.write(`${JSON.stringify(object)}\n`);
}
