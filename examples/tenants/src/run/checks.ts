/** What the books have to show, as functions of them alone. */

/** One attempt, with times in milliseconds by the database's clock. */
export interface Attempt {
  readonly jobId: string;
  readonly type: string;
  readonly tenant: string;
  /** Null where the job has no ordering key. */
  readonly account: string | null;
  /** Place among the jobs of its account. */
  readonly entry: number | null;
  readonly dispatchedMs: number;
  readonly startedMs: number;
  /** Infinity where no end was written. */
  readonly endedMs: number;
  readonly succeeded: boolean;
}

/** A time, in milliseconds by the database's clock. */
export interface Period {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** A limit: its name, whom it counts, how many of them may run. */
export interface Limit {
  readonly name: string;
  readonly counts: (attempt: Attempt) => boolean;
  readonly most: number;
}

/** A job that started where it must not have. */
export interface Offence {
  readonly jobId: string;
  readonly fact: string;
}

/**
 * Between the moment that a row says and the commit that makes it hold: what the relay dispatches
 * meanwhile was not to know of it.
 */
const commitMs = 500;

const byStart = (a: Attempt, b: Attempt): number => a.startedMs - b.startedMs;

/** Each start that made more run than a limit allows. */
export function overLimit(attempts: readonly Attempt[], { name, counts, most }: Limit): Offence[] {
  let running: Attempt[] = [];
  const found: Offence[] = [];
  for (const attempt of attempts.filter(counts).toSorted(byStart)) {
    running = running.filter(({ endedMs }) => endedMs > attempt.startedMs);
    running.push(attempt);
    if (running.length <= most) continue;
    found.push({ jobId: attempt.jobId, fact: `${running.length} ran at once: ${name} is ${most}` });
  }
  return found;
}

/** The most of these that ran at the same time. */
export function mostAtOnce(attempts: readonly Attempt[]): number {
  let most = 0;
  let running: Attempt[] = [];
  for (const attempt of attempts.toSorted(byStart)) {
    running = running.filter(({ endedMs }) => endedMs > attempt.startedMs);
    most = Math.max(most, running.push(attempt));
  }
  return most;
}

/** Each job that started before the one before it in its account had succeeded. */
export function outOfOrder(attempts: readonly Attempt[]): Offence[] {
  const found: Offence[] = [];
  const accounts = Map.groupBy(
    attempts.filter(({ account }) => account !== null),
    ({ account }) => account,
  );
  for (const [account, ofAccount] of accounts) {
    // When the account's job before has succeeded; never, until it is seen to.
    let freeMs = -Infinity;
    const entries = Map.groupBy(ofAccount, ({ entry }) => entry ?? 0);
    for (const [entry, ofEntry] of [...entries].toSorted(([a], [b]) => a - b)) {
      const [first] = ofEntry.toSorted(byStart);
      if (first !== undefined && first.startedMs < freeMs) {
        const fact = `posting ${entry} of ${account} started before the one before it had succeeded`;
        found.push({ jobId: first.jobId, fact });
      }
      const end = ofEntry.find(({ succeeded }) => succeeded)?.endedMs ?? Infinity;
      freeMs = Math.max(freeMs, end);
    }
  }
  return found;
}

/** Each attempt that was dispatched in a time in which its job had to wait. */
export function notHeldBack(
  attempts: readonly Attempt[],
  periods: readonly Period[],
  why: string,
): Offence[] {
  return attempts.flatMap((attempt) => {
    const period = periods.find(
      ({ fromMs, untilMs }) =>
        attempt.dispatchedMs > fromMs + commitMs && attempt.dispatchedMs < untilMs,
    );
    if (period === undefined) return [];
    const sinceMs = Math.round(attempt.dispatchedMs - period.fromMs);
    return [{ jobId: attempt.jobId, fact: `dispatched ${sinceMs} ms after ${why}` }];
  });
}

/** What tenants started while all of them had jobs that waited. */
export interface Shares {
  readonly starts: Readonly<Record<string, number>>;
  /** What each had to start by its weight. */
  readonly due: Readonly<Record<string, number>>;
  /** The largest difference between the two, as a part of what was due. */
  readonly deviation: number;
  /** The same in jobs. */
  readonly deviationJobs: number;
}

/**
 * Counts the starts from when each tenant has had its first one until one of them has its last: so long
 * jobs of all of them wait.
 */
export function sharesOf(
  attempts: readonly Attempt[],
  weights: Readonly<Record<string, number>>,
): Shares {
  const names = Object.keys(weights);
  const startsOf = (tenant: string): readonly number[] =>
    attempts.filter((attempt) => attempt.tenant === tenant).map(({ startedMs }) => startedMs);
  const all = names.map(startsOf);
  const fromMs = Math.max(...all.map((starts) => Math.min(...starts)));
  const untilMs = Math.min(...all.map((starts) => Math.max(...starts)));
  const counted = names.map(
    (name) => startsOf(name).filter((startMs) => startMs > fromMs && startMs <= untilMs).length,
  );
  const sum = counted.reduce((total, count) => total + count, 0);
  const weight = Object.values(weights).reduce((total, each) => total + each, 0);
  const due = names.map((name) => (sum * (weights[name] ?? 0)) / weight);
  const differences = counted.map((count, n) => Math.abs(count - (due[n] ?? 0)));
  return {
    starts: Object.fromEntries(names.map((name, n) => [name, counted[n] ?? 0])),
    due: Object.fromEntries(names.map((name, n) => [name, due[n] ?? 0])),
    deviation: Math.max(...differences.map((difference, n) => difference / (due[n] ?? 1))),
    deviationJobs: Math.max(...differences),
  };
}
