import { chargeInvoice } from "../jobs.ts";
import {
  type Attempt,
  type Limit,
  mostAtOnce,
  notHeldBack,
  type Offence,
  outOfOrder,
  overLimit,
  type Shares,
  sharesOf,
} from "./checks.ts";
import type { Ledger } from "./ledger.ts";

/** What the books come to. */
export interface Verdict {
  readonly jobs: number;
  readonly attempts: number;
  readonly overLimits: readonly Offence[];
  readonly outOfOrder: readonly Offence[];
  /** Attempts of charges that were dispatched while the breaker was open. */
  readonly spent: readonly Offence[];
  /** Jobs that were dispatched while the queue was paused. */
  readonly inPause: readonly Offence[];
  /** Jobs that did not succeed, or whose attempts are not those of the books. */
  readonly unaccounted: readonly Offence[];
  /** Everything that was to be shown and was not. */
  readonly notShown: readonly string[];
  readonly shares: Shares;
  readonly opened: number;
  /** Attempts of charges that failed. */
  readonly failedCharges: number;
  /** Other jobs that started while the breaker was open. */
  readonly startedMeanwhile: number;
  /** The most jobs that ran at the same time, and what is allowed. */
  readonly most: { readonly ran: number; readonly allowed: number };
  /** Milliseconds that each tenant's first job waited. */
  readonly firstWaitMs: Readonly<Record<string, number>>;
}

/** What shares may be off their weights, and what a count of few jobs cannot show any finer. */
const deviationMax = 0.05;
const deviationJobsMax = 2;

const isCharge = ({ type }: Attempt): boolean => type === chargeInvoice.name;

function limitsOf({ most, tenants, mostCharges }: Ledger): readonly Limit[] {
  return [
    { name: "the limit of the queue", counts: () => true, most },
    ...tenants.map((limits) => ({
      name: `the limit of ${limits.tenant}`,
      counts: ({ tenant }: Attempt) => tenant === limits.tenant,
      most: limits.most,
    })),
    {
      name: `the limit of ${chargeInvoice.name}`,
      counts: isCharge,
      most: mostCharges,
    },
  ];
}

function unaccounted({ jobs, attempts }: Ledger): Offence[] {
  const noted = Map.groupBy(attempts, ({ jobId }) => jobId);
  return jobs.flatMap(({ jobId, state, attempts: known }) => {
    if (state !== "succeeded") return [{ jobId, fact: `is ${state}` }];
    const count = noted.get(jobId)?.length ?? 0;
    if (count === known) return [];
    return [{ jobId, fact: `has ${known} attempts in the database and ${count} in the books` }];
  });
}

function firstWaits(
  { jobs, tenants }: Ledger,
  ofShares: readonly Attempt[],
): Verdict["firstWaitMs"] {
  const enqueued = new Map(jobs.map(({ jobId, enqueuedMs }) => [jobId, enqueuedMs]));
  return Object.fromEntries(
    tenants.map(({ tenant }) => {
      const first = ofShares.find((attempt) => attempt.tenant === tenant);
      return [
        tenant,
        first === undefined ? NaN : first.startedMs - (enqueued.get(first.jobId) ?? NaN),
      ];
    }),
  );
}

/**
 * Checks the books.
 *
 * @param shareIds jobs of the part in which the tenants share the queue
 * @param expected jobs that were enqueued
 */
export function verdictOf(
  ledger: Ledger,
  shareIds: ReadonlySet<string>,
  expected: number,
): Verdict {
  const { attempts, jobs, outages, pauses, breakerState, tenants } = ledger;
  const ofShares = attempts.filter(({ jobId }) => shareIds.has(jobId));
  const charges = attempts.filter(isCharge);
  const weights = Object.fromEntries(tenants.map(({ tenant, weight }) => [tenant, weight]));
  const startedMeanwhile = attempts.filter(
    (attempt) =>
      !isCharge(attempt) &&
      outages.some(
        ({ fromMs, untilMs }) => attempt.startedMs > fromMs && attempt.startedMs < untilMs,
      ),
  ).length;
  const afterPause = attempts.filter(({ startedMs }) =>
    pauses.some(({ untilMs }) => startedMs > untilMs),
  ).length;
  const notShown = [
    ...(jobs.length === expected ? [] : [`${jobs.length} of ${expected} jobs are in the database`]),
    ...(outages.length > 0 ? [] : ["the breaker never opened"]),
    ...(breakerState === "closed" ? [] : [`the breaker is ${breakerState} in the end`]),
    ...(startedMeanwhile > 0 ? [] : ["nothing else ran while the breaker was open"]),
    ...(pauses.length > 0 && afterPause > 0 ? [] : ["nothing waited for the end of a pause"]),
  ];
  return {
    jobs: jobs.length,
    attempts: attempts.length,
    overLimits: limitsOf(ledger).flatMap((limit) => overLimit(attempts, limit)),
    outOfOrder: outOfOrder(attempts),
    spent: notHeldBack(charges, outages, "the breaker had opened"),
    inPause: notHeldBack(attempts, pauses, "the queue was paused"),
    unaccounted: unaccounted(ledger),
    notShown,
    shares: sharesOf(ofShares, weights),
    opened: outages.length,
    failedCharges: charges.filter(({ succeeded }) => !succeeded).length,
    startedMeanwhile,
    most: { ran: mostAtOnce(attempts), allowed: ledger.most },
    firstWaitMs: firstWaits(ledger, ofShares),
  };
}

/** True where the shares are the weights', as far as so many jobs can show it. */
export const sharesFit = ({ shares }: Verdict): boolean =>
  shares.deviation <= deviationMax || shares.deviationJobs <= deviationJobsMax;

/** True where everything was kept to, and everything was shown. */
export function holds(verdict: Verdict): boolean {
  const { overLimits, outOfOrder: disorder, spent, inPause, unaccounted: lost, notShown } = verdict;
  return (
    [overLimits, disorder, spent, inPause, lost, notShown].every(({ length }) => length === 0) &&
    sharesFit(verdict)
  );
}
