/**
 * Starts claimed jobs in their slots, and keeps a poisonous one from taking its neighbours along.
 *
 * A job whose workers died twice is a suspect: perhaps it is what kills them. A process runs one
 * suspect at a time and starts nothing beside it at first; what was claimed together with it is
 * handed back before it starts. So the crashes it causes are counted for it alone. After a single
 * crash jobs start at once, side by side: nearly always it was a deploy or a lost machine.
 *
 * Jobs that were claimed ahead of a share wait here until a handler of their queue has ended. A process
 * that dies takes them along, as it does what runs; so they are few, and given back if they wait for long.
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

/** A job that was claimed ahead waits for so long at most, in milliseconds. */
const readyMs = 1_000;

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
  /** Jobs that were claimed ahead, with the time until which they may wait. */
  readonly #ready = new Map<
    WorkQueue,
    { readonly slotted: SlottedJob<Tx>; readonly until: number }[]
  >();
  #isSweeping = false;

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
    for (const queue of this.#ready.keys()) this.#giveBack(this.#takeReady(queue));
  }

  /** Follows a change of a queue's limit. */
  refit(queue: WorkQueue): void {
    if (queue.limit === 0) this.#giveBack(this.#takeReady(queue));
    else this.#startReady(queue);
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
    // It may have to wait for a place.
    this.#quietUntil = Number.POSITIVE_INFINITY;
    for (const queue of this.#ready.keys()) others.push(...this.#takeReady(queue));
    await Promise.all([
      this.#putAside(rest, (each) => each.queue.pushSuspect(each.job.incoming)),
      this.#putAside(others, (each) => each.queue.push(each.job.incoming)),
    ]);
    this.#run(first);
  }

  /** The suspect starts. */
  #beginQuiet(suspect: Incoming): void {
    this.#quietUntil = performance.now() + quietMs;
    void delay(quietMs).then(() => this.#goOn());
    void delay(suspicionMs, undefined, { ref: false }).then(() => this.#clearSuspect(suspect));
  }

  #clearSuspect(incoming: Incoming): void {
    if (this.#suspect !== incoming) return;
    this.#suspect = undefined;
    this.#goOn();
  }

  #goOn(): void {
    for (const queue of this.#ready.keys()) this.#startReady(queue);
    this.#options.onChange();
  }

  #run(slotted: SlottedJob<Tx>): void {
    const { runner, bootId, inFlight, track, onChange, onLanded } = this.#options;
    const { job, queue } = slotted;
    const { incoming, row } = job;
    // Stopped, or this boot id died, while the claim was on its way.
    if (this.#stopped || bootId() !== row.owner) {
      this.#giveBack([slotted]);
      return;
    }
    if (!queue.hasRoom) {
      this.#wait(slotted);
      return;
    }
    if (incoming === this.#suspect) this.#beginQuiet(incoming);
    queue.beginRun();
    const startedAt = performance.now();
    let isFree = false;
    const freeSlot = (): void => {
      if (isFree) return;
      isFree = true;
      inFlight.endHandler(incoming.key);
      queue.endRun(performance.now() - startedAt);
      queue.freeSlot();
      this.#startReady(queue);
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

  /** Lets a job that was claimed ahead wait. */
  #wait(slotted: SlottedJob<Tx>): void {
    const { queue } = slotted;
    if (queue.limit === 0) {
      this.#giveBack([slotted]);
      return;
    }
    const waiting = this.#ready.get(queue) ?? [];
    waiting.push({ slotted, until: performance.now() + readyMs });
    this.#ready.set(queue, waiting);
    this.#sweepLater(readyMs);
  }

  #takeReady(queue: WorkQueue): readonly SlottedJob<Tx>[] {
    return (this.#ready.get(queue)?.splice(0) ?? []).map(({ slotted }) => slotted);
  }

  /** Starts what waits, as far as there is room. */
  #startReady(queue: WorkQueue): void {
    const { isHeldBack, track } = this.#options;
    const waiting = this.#ready.get(queue) ?? [];
    while (queue.hasRoom) {
      const isSuspect = waiting[0]?.slotted.job.incoming === this.#suspect;
      const next = this.mayClaim || isSuspect ? waiting.shift()?.slotted : undefined;
      if (next === undefined) return;
      if (next.job.row.slotted === true && isHeldBack(next.job)) track(this.#putBack(next));
      else this.#run(next);
    }
  }

  #sweepLater(milliseconds: number): void {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    setTimeout(() => this.#sweep(), milliseconds).unref();
  }

  /** What has waited for long might run elsewhere. */
  #sweep(): void {
    this.#isSweeping = false;
    const now = performance.now();
    for (const waiting of this.#ready.values()) {
      const first = waiting.findIndex(({ until }) => until > now);
      const late = waiting.splice(0, first === -1 ? waiting.length : first);
      this.#giveBack(late.map(({ slotted }) => slotted));
      if (waiting.length > 0) this.#sweepLater(readyMs / 2);
    }
  }

  /** Gives claimed jobs back unstarted, to whatever worker. */
  #giveBack(jobs: readonly SlottedJob<Tx>[]): void {
    if (jobs.length === 0) return;
    this.#options.track(this.#putAside(jobs, ({ job }) => job.incoming.delivery.requeue()));
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
    this.#clearSuspect(incoming);
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
        this.#clearSuspect(incoming);
        onChange();
      }),
    );
  }
}
