/**
 * Runs a handler with the jobs of a batch. Each job has an attempt of its own, which waits here for
 * its outcome and does the rest: a batch records nothing. The attempts end together, when the
 * handler has ended, so that their slots are free together and the next batch is no smaller. Only a
 * job that was told to stop may end before.
 */

import { type CurrentJob, currentJob } from "../current-job.ts";
import type { BatchEntry } from "./batch-entry.ts";
import type { BatchHandler } from "./batched-job.ts";

/** See the head of the file. */
export class Batch<Tx> {
  readonly #entries: readonly BatchEntry<Tx>[];
  readonly #handler: BatchHandler<Tx>;
  readonly #controller = new AbortController();
  readonly #current: CurrentJob | undefined;
  /** Jobs that the handler still has to do: neither stated nor told to stop. */
  #toDo: number;
  /** Jobs whose attempts wait for the handler. */
  #waiting: number;

  constructor(entries: readonly BatchEntry<Tx>[], handler: BatchHandler<Tx>) {
    this.#entries = entries;
    this.#handler = handler;
    this.#toDo = entries.length;
    this.#waiting = entries.length;
    this.#current = this.#currentJob();
    for (const entry of entries) this.#watch(entry);
  }

  /** Never rejects. */
  async run(): Promise<void> {
    const jobs = this.#entries.map(({ context }) => context);
    for (const { member } of this.#entries) member.onStart();
    try {
      const { signal } = this.#controller;
      const answer = await this.#inContext(async () => await this.#handler(jobs, signal));
      if (answer !== undefined) {
        // Perhaps outcomes in a form of its own: to take them for success could lose jobs.
        const name = jobs[0]?.name ?? "";
        throw new TypeError(
          `Cannot end the batch of "${name}": its handler returned a value. State outcomes with job.succeed and job.fail, and return nothing.`,
        );
      }
      for (const entry of this.#entries) entry.end({ succeeded: true, result: undefined });
    } catch (error) {
      for (const entry of this.#entries) entry.end({ succeeded: false, error });
    }
  }

  #watch(entry: BatchEntry<Tx>): void {
    const { signal } = entry;
    let isToDo = true;
    const done = (): void => {
      if (!isToDo) return;
      isToDo = false;
      this.#toDo -= 1;
      if (this.#toDo === 0) this.#stopHandler();
    };
    const endStopped = (): void => {
      if (!signal.aborted || !entry.isStated) return;
      if (!entry.isLeftBehind) this.#waiting -= 1;
      entry.end({ succeeded: false, error: signal.reason });
    };
    entry.onStated = () => {
      done();
      endStopped();
    };
    signal.addEventListener(
      "abort",
      () => {
        done();
        endStopped();
      },
      { once: true },
    );
    entry.onLeftBehind = (reason) => {
      this.#waiting -= 1;
      // The last one stays until the handler ends: a batch that hangs is one handler left behind.
      if (this.#waiting > 0) entry.end({ succeeded: false, error: reason });
    };
  }

  /** Nothing of what is left may be done. */
  #stopHandler(): void {
    const stopped = this.#entries.find((entry) => !entry.isStated && entry.signal.aborted);
    if (stopped === undefined) return;
    this.#inContext(() => this.#controller.abort(stopped.signal.reason));
  }

  /** What goes wrong there is the batch's. */
  #inContext<T>(work: () => T): T {
    return this.#current === undefined ? work() : currentJob.run(this.#current, work);
  }

  /**
   * An error outside the handler's promise may be the fault of any of the jobs, so it fails all of
   * which nothing else was stated. It is logged with the first one.
   */
  #currentJob(): CurrentJob | undefined {
    const first = this.#entries[0]?.member.current;
    if (first === undefined) return undefined;
    const open = (): readonly CurrentJob[] =>
      this.#entries
        .filter((entry) => !entry.isStated)
        .map(({ member }) => member.current)
        .filter((current) => !current.ended());
    return {
      ...first,
      logger: first.logger.child({ batchJobs: this.#entries.length }),
      ended: () => open().length === 0,
      fail: (error) => {
        for (const current of open()) current.fail(error);
      },
    };
  }
}
