/**
 * What is dispatched beyond what runs is enough for so long, in milliseconds. More is dispatched when a part
 * of it is gone (see QueueSchedule): what is left lasts for a turnaround (end of a job, news of it, dispatch,
 * delivery, claim) also where all processors are busy, and a round has many jobs instead of one or two.
 */
const aheadMs = 60;
/** Part of what runs that is dispatched ahead at least, of jobs that take less than so many milliseconds. */
const aheadPart = 0.2;
const longRunMs = 1_000;
/** Jobs of a queue that are dispatched ahead at most, with those that run. */
export const aheadMax = 2_000;
/** Weight of one job in the moving mean. */
const weight = 0.02;

/**
 * How long a queue's jobs run, and from that how many may be dispatched so that no worker waits for the
 * next one: those that run, and as many more as end within a turnaround.
 */
export class Pace {
  /** Moving mean in milliseconds; short at first, so that the first jobs do not wait for each other. */
  #runMs = 5;

  ran(totalMs: number, jobs: number): void {
    const part = 1 - (1 - weight) ** jobs;
    this.#runMs += part * (totalMs / jobs - this.#runMs);
  }

  /** Jobs that may be dispatched where so many run at a time. */
  ahead(running: number): number {
    if (running === 0) return 0;
    const least = this.#runMs < longRunMs ? aheadPart : 0;
    const more = Math.ceil(running * Math.max(least, aheadMs / Math.max(1, this.#runMs)));
    return Math.max(running, Math.min(aheadMax, running + more));
  }
}
