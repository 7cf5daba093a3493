/** How much is done in a run. */

/** Counts of a run. */
export interface Plan {
  /** Time under faults, in milliseconds; the start, the drain and the checks come on top. */
  readonly faultsMs: number;
  /** Jobs that are committed at least. */
  readonly jobs: number;
  /** Processes killed with SIGKILL. */
  readonly processKills: number;
  readonly brokerKills: number;
  readonly databaseKills: number;
  /** Connections cut in one way or another. */
  readonly cuts: number;
}

/** A named size of a run. */
export type Mode = "smoke" | "release" | "long";

/** Load without faults before the first of them, in milliseconds. */
export const warmUpMs = 5_000;

const smoke = {
  minutes: 3,
  plan: { jobs: 5_500, processKills: 54, brokerKills: 3, databaseKills: 6, cuts: 16 },
};
const release = {
  minutes: 30,
  plan: { jobs: 100_000, processKills: 900, brokerKills: 75, databaseKills: 100, cuts: 200 },
};

/** Minutes of a mode where none are given. */
export function minutesOf(mode: Mode): number {
  return mode === "smoke" ? smoke.minutes : release.minutes;
}

/** The counts of a mode in so many minutes: those of its own time in proportion. */
export function planOf(mode: Mode, minutes: number): Plan {
  const whole = mode === "smoke" ? smoke : release;
  const part = (count: number): number => Math.ceil((count * minutes) / whole.minutes);
  const { jobs, processKills, brokerKills, databaseKills, cuts } = whole.plan;
  return {
    faultsMs: Math.max(10_000, minutes * 60_000 - warmUpMs),
    jobs: part(jobs),
    processKills: part(processKills),
    brokerKills: part(brokerKills),
    databaseKills: part(databaseKills),
    cuts: part(cuts),
  };
}
