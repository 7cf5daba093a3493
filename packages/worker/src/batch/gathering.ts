/**
 * Jobs of one type that wait for company. A batch starts when it is full, when its first job has
 * waited long enough, or when nobody can join it: all slots of the queue are taken, and none of them
 * by a job that is on its way here.
 */

import { currentJob } from "../current-job.ts";
import { Batch } from "./batch.ts";
import { BatchEntry } from "./batch-entry.ts";
import type { BatchHandler, BatchMember } from "./batched-job.ts";
import type { ResolvedBatchOptions } from "./options.ts";

/** Options of {@link Gathering}. */
export interface GatheringOptions<Tx> extends ResolvedBatchOptions {
  readonly handler: BatchHandler<Tx>;
  /** True while more jobs of the queue may be started. */
  readonly mayGrow: () => boolean;
}

/** The place that is kept for an attempt until it joins. */
export interface Seat<Tx> {
  /** Joins; the entry tells of the outcome. */
  join(member: BatchMember<Tx>): Pick<BatchEntry<Tx>, "ended" | "leaveBehind">;
  /** Gives the place up; no effect on an attempt that has joined. */
  leave(): void;
}

/** See the head of the file. */
export class Gathering<Tx> {
  readonly #options: GatheringOptions<Tx>;
  readonly #waiting = new Set<BatchEntry<Tx>>();
  /** Attempts that will join: their payloads are being checked. */
  #seats = 0;
  #timer: NodeJS.Timeout | undefined;
  #willLook = false;
  #reasonOfStop: ((jobId: string) => Error) | undefined;

  constructor(options: GatheringOptions<Tx>) {
    this.#options = options;
  }

  /** Keeps a place. */
  reserve(): Seat<Tx> {
    this.#seats += 1;
    let isReserved = true;
    const leave = (): void => {
      if (!isReserved) return;
      isReserved = false;
      this.#seats -= 1;
      this.#lookSoon();
    };
    return {
      leave,
      join: (member) => {
        leave();
        return currentJob.exit(() => this.#join(member));
      },
    };
  }

  /** Starts the batch, if nobody can join it. */
  look(): void {
    if (this.#waiting.size > 0 && this.#seats === 0 && !this.#options.mayGrow()) this.#start();
  }

  /** Starts no more batches; stops the jobs that wait, and those that come. */
  stop(reasonOf: (jobId: string) => Error): void {
    this.#reasonOfStop = reasonOf;
    for (const { member } of this.#waiting) member.stop(reasonOf(member.context.id));
  }

  #join(member: BatchMember<Tx>): BatchEntry<Tx> {
    const entry = new BatchEntry(member);
    const { signal } = entry;
    if (this.#reasonOfStop !== undefined) member.stop(this.#reasonOfStop(member.context.id));
    if (signal.aborted) {
      entry.end({ succeeded: false, error: signal.reason });
    } else if (member.isSuspect) {
      this.#run([entry]);
    } else {
      this.#waiting.add(entry);
      signal.addEventListener("abort", () => this.#drop(entry), { once: true });
      this.#timer ??= setTimeout(() => this.#start(), this.#options.maxWaitMs);
      if (this.#waiting.size >= this.#options.maxJobs) this.#start();
    }
    return entry;
  }

  /** Takes out a job that was told to stop before its batch has started. */
  #drop(entry: BatchEntry<Tx>): void {
    if (!this.#waiting.delete(entry)) return;
    if (this.#waiting.size === 0) this.#stopTimer();
    entry.end({ succeeded: false, error: entry.signal.reason });
  }

  /** At the end of this turn of the event loop, when all that join in it have joined. */
  #lookSoon(): void {
    if (this.#willLook) return;
    this.#willLook = true;
    currentJob.exit(() =>
      setImmediate(() => {
        this.#willLook = false;
        this.look();
      }),
    );
  }

  #start(): void {
    this.#stopTimer();
    const entries = [...this.#waiting];
    this.#waiting.clear();
    this.#run(entries);
  }

  #run(entries: readonly BatchEntry<Tx>[]): void {
    void new Batch(entries, this.#options.handler).run();
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
