/**
 * Starts claimed jobs in their slots, and keeps a poisonous one from taking its neighbours along.
 *
 * A job whose workers died twice is a suspect: perhaps it is what kills them. A process runs one
 * suspect at a time and starts nothing beside it at first; what was claimed together with it is
 * handed back before it starts. So the crashes it causes are counted for it alone. After a single
 * crash jobs start at once, side by side: nearly always it was a deploy or a lost machine.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@waybill/core";
import type { InFlight } from "./in-flight.ts";
import type { ClaimedJob, JobRunner } from "./job-runner.ts";
import type { Settlements } from "./settlements.ts";
import type { Incoming } from "./incoming.ts";
import { suspectCrashes } from "./verdict.ts";
import type { WorkQueue } from "./work-queue.ts";

/** How long a suspect is alone with what already runs, in milliseconds. */
const quietMs = 500;
/** How long a suspect keeps other suspects waiting, in milliseconds; after that it has proved itself. */
const suspicionMs = 5_000;

/** A claimed job and the queue whose slot it has. */
export interface SlottedJob<Tx> {
  readonly job: ClaimedJob<Tx>;
  readonly queue: WorkQueue;
}

/** Options of {@link JobStarts}. */
export interface JobStartsOptions<Tx> {
  readonly runner: JobRunner<Tx>;
  readonly settlements: Settlements;
  readonly logger: Logger;
  readonly crashBudget: number;
  readonly bootId: () => string | undefined;
  readonly inFlight: InFlight;
  /** Counts work as open until it is done. */
  readonly track: (work: Promise<void>) => void;
  /** Something may be claimed again. */
  readonly onChange: () => void;
  /** The job is in flight no more. */
  readonly onLanded: (incoming: Incoming, queue: WorkQueue) => void;
  /** True where a pause or a breaker came between the dispatch of a slotted job and its start. */
  readonly isHeldBack: (job: ClaimedJob<Tx>) => boolean;
}

/** See the head of the file. */
export class JobStarts<Tx> {
  readonly #options: JobStartsOptions<Tx>;
  #stopped = false;
  #suspect: Incoming | undefined;
  #quietUntil = 0;

  constructor(options: JobStartsOptions<Tx>) {
    this.#options = options;
  }

  /** False while a suspect is to be alone. */
  get mayClaim(): boolean {
    return this.#suspect === undefined || performance.now() >= this.#quietUntil;
  }

  /** True where a suspect that waits may be claimed. */
  get mayTakeSuspect(): boolean {
    return this.#suspect === undefined;
  }

  /** Starts no more: what is claimed from now on is handed back. */
  stop(): void {
    this.#stopped = true;
  }

  /** Starts jobs that were claimed together. Resolves when the next claim may follow. */
  async start(jobs: readonly SlottedJob<Tx>[]): Promise<void> {
    const { crashBudget, isHeldBack, track } = this.#options;
    const live: SlottedJob<Tx>[] = [];
    for (const claimed of jobs) {
      if (claimed.job.row.crashes > crashBudget) continue;
      if (claimed.job.row.slotted === true && isHeldBack(claimed.job)) {
        track(this.#putBack(claimed));
      } else live.push(claimed);
    }
    for (const dead of jobs) if (dead.job.row.crashes > crashBudget) this.#bury(dead);
    const suspects = live.filter(({ job }) => job.row.crashes >= suspectCrashes);
    const others = live.filter(({ job }) => job.row.crashes < suspectCrashes);
    const [first, ...rest] = suspects;
    if (first === undefined) {
      for (const other of others) this.#run(other);
      return;
    }
    if (this.#suspect !== undefined) {
      for (const other of others) this.#run(other);
      await this.#putAside(suspects, (each) => each.queue.pushSuspect(each.job.incoming));
      return;
    }
    this.#suspect = first.job.incoming;
    this.#quietUntil = performance.now() + quietMs;
    await Promise.all([
      this.#putAside(rest, (each) => each.queue.pushSuspect(each.job.incoming)),
      this.#putAside(others, (each) => each.queue.push(each.job.incoming)),
    ]);
    this.#run(first);
    void delay(quietMs).then(this.#options.onChange);
    void delay(suspicionMs, undefined, { ref: false }).then(() =>
      this.#clearSuspect(first.job.incoming),
    );
  }

  #clearSuspect(incoming: Incoming): void {
    if (this.#suspect !== incoming) return;
    this.#suspect = undefined;
    this.#options.onChange();
  }

  #run(slotted: SlottedJob<Tx>): void {
    const { runner, bootId, inFlight, track, onChange, onLanded } = this.#options;
    const { job, queue } = slotted;
    const { incoming, row } = job;
    // Stopped, or this boot id died, while the claim was on its way.
    if (this.#stopped || bootId() !== row.owner) {
      track(this.#putAside([slotted], () => incoming.delivery.requeue()));
      return;
    }
    let isFree = false;
    const freeSlot = (): void => {
      if (isFree) return;
      isFree = true;
      inFlight.endHandler(incoming.key);
      queue.freeSlot();
      onChange();
    };
    track(
      runner.run(job, freeSlot).finally(() => {
        freeSlot();
        onLanded(incoming, queue);
        // Not before its end is recorded: the next suspect may kill the process.
        this.#clearSuspect(incoming);
      }),
    );
  }

  #bury({ job, queue }: SlottedJob<Tx>): void {
    const { runner, track, onChange, onLanded } = this.#options;
    track(
      runner.bury(job).finally(() => {
        queue.freeSlot();
        onLanded(job.incoming, queue);
        onChange();
      }),
    );
  }

  /** Puts a claimed job back to the backlog. Never rejects. */
  async #putBack({ job, queue }: SlottedJob<Tx>): Promise<void> {
    const { settlements, logger, onChange, onLanded } = this.#options;
    const { incoming, row } = job;
    try {
      await settlements.putBack(row);
      incoming.delivery.ack();
    } catch (err) {
      logger.warn({ err, jobId: row.id }, "job could not be put back");
      incoming.delivery.requeue();
    }
    queue.freeSlot();
    onLanded(incoming, queue);
    onChange();
  }

  /** Gives claimed jobs back unstarted, and their deliveries to `next`. Never rejects. */
  async #putAside(
    jobs: readonly SlottedJob<Tx>[],
    next: (job: SlottedJob<Tx>) => void,
  ): Promise<void> {
    const { settlements, logger, onChange, onLanded } = this.#options;
    await Promise.all(
      jobs.map(async (slotted) => {
        const { job, queue } = slotted;
        const { incoming, row } = job;
        try {
          await settlements.release({ ...row, dispatch: incoming.envelope.dispatch });
        } catch (err) {
          logger.warn({ err, jobId: row.id }, "job could not be handed back");
        }
        queue.freeSlot();
        onLanded(incoming, queue);
        if (this.#stopped) incoming.delivery.requeue();
        else next(slotted);
        onChange();
      }),
    );
  }
}
