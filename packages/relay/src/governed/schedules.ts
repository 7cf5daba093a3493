/** The governed queues of one term, with what they share: the breakers, and turns of one round. */

import type {
  BacklogRow,
  DispatchRef,
  FreedRow,
  Governance,
  QueueCapacity,
  SlotRow,
} from "@waybill/postgres";
import { BreakerViews } from "./breaker-views.ts";
import { limitsOf, noLimits, type QueueLimits } from "./limits.ts";
import type { LaneRest } from "./lane.ts";
import { Pace } from "./pace.ts";
import { QueueSchedule } from "./queue-schedule.ts";
import { laneIdOf, type WaitingJob } from "./waiting-job.ts";

/** A row of the backlog as a job that waits. */
export function waitingJobOf(row: BacklogRow): WaitingJob {
  return {
    id: row.id,
    queue: row.queue,
    place: Number(row.place),
    key: row.key,
    orderingKey: row.ordering_key,
    type: row.type,
    priority: row.priority,
    dispatch: row.dispatch,
  };
}

/** A lane of a queue of which more is to be fetched. */
export type QueueRest = LaneRest & { readonly queue: string };

interface LaneJobs {
  readonly queue: string;
  readonly lane: string;
  readonly jobs: WaitingJob[];
}

const laneName = (queue: string, lane: string): string => `${queue}\n${lane}`;

function jobsByLane(rows: readonly BacklogRow[]): ReadonlyMap<string, LaneJobs> {
  const lanes = new Map<string, LaneJobs>();
  for (const row of rows) {
    const job = waitingJobOf(row);
    const lane = laneIdOf(job);
    const name = laneName(job.queue, lane);
    const group = lanes.get(name) ?? { queue: job.queue, lane, jobs: [] };
    group.jobs.push(job);
    lanes.set(name, group);
  }
  return lanes;
}

/** See the head of the file. */
export class Schedules {
  readonly #queues = new Map<string, QueueSchedule>();
  readonly #paces = new Map<string, Pace>();
  readonly #breakers = new BreakerViews();
  #limits: ReadonlyMap<string, QueueLimits> = new Map();
  #capacity: ReadonlyMap<string, number> = new Map();

  /** True where the queue's rows are not published as they come. */
  governs(queue: string): boolean {
    if (this.#limits.get(queue)?.governed === true) return true;
    // What waits from the time when it was governed goes first.
    return this.#queues.get(queue)?.isEmpty === false;
  }

  /** True where any queue is governed or has something left. */
  get any(): boolean {
    return this.#queues.size > 0 || [...this.#limits.values()].some(({ governed }) => governed);
  }

  get hasSlots(): boolean {
    return [...this.#queues.values()].some(({ running }) => running > 0);
  }

  /** True where a rate counts starts and some are awaited. */
  get awaitsStarts(): boolean {
    return [...this.#queues.values()].some(({ unstarted }) => !unstarted.isEmpty);
  }

  /** Dispatched jobs that may have started. */
  unstarted(nowMs: number): readonly DispatchRef[] {
    return [...this.#queues.values()].flatMap((queue) => queue.unstarted.refs(nowMs));
  }

  of(name: string, nowMs: number): QueueSchedule {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      const limits = this.#limits.get(name) ?? noLimits;
      queue = new QueueSchedule(name, limits, this.#breakers, nowMs);
      this.#queues.set(name, queue);
      this.#allow(queue);
    }
    return queue;
  }

  /** Takes new settings. */
  apply(governance: Governance, nowMs: number): void {
    this.#limits = limitsOf(governance, nowMs);
    this.#breakers.apply(governance.dependencies);
    for (const [name, queue] of this.#queues) {
      queue.apply(this.#limits.get(name) ?? noLimits, nowMs);
      this.#allow(queue);
    }
  }

  /** What the living workers can run. */
  applyCapacity(capacity: readonly QueueCapacity[]): void {
    this.#capacity = new Map(capacity.map((row) => [row.queue, row.capacity]));
    for (const queue of this.#queues.values()) {
      queue.lookAtShares();
      this.#allow(queue);
    }
  }

  /** Dispatches only what the workers can start soon: what is at the broker cannot be reordered. */
  #allow(queue: QueueSchedule): void {
    const { concurrency, rated } = queue.limits;
    const running = Math.min(concurrency, this.#capacity.get(queue.name) ?? 0);
    queue.allow(running, rated ? running : this.#paceOf(queue.name).ahead(running));
  }

  #paceOf(name: string): Pace {
    let pace = this.#paces.get(name);
    if (pace === undefined) {
      pace = new Pace();
      this.#paces.set(name, pace);
    }
    return pace;
  }

  /** Takes news; gives back the rows that have to be looked at again. */
  news(rows: readonly FreedRow[], nowMs: number): { id: string; queue: string }[] {
    const changed: { id: string; queue: string }[] = [];
    for (const row of rows) {
      const queue = this.of(row.queue, nowMs);
      for (const id of row.ended) queue.ended(id, nowMs);
      for (const id of row.waiting) queue.waits(id, nowMs);
      for (const id of row.changed) changed.push({ id, queue: row.queue });
      if (row.run_ms > 0 && row.ended.length > 0) {
        this.#paceOf(row.queue).ran(row.run_ms, row.ended.length);
        this.#allow(queue);
      }
    }
    return changed;
  }

  /** Slots and first rows of the lanes, at the start of a term. */
  load(
    slots: readonly SlotRow[],
    rows: readonly BacklogRow[],
    rowsMax: number,
    nowMs: number,
  ): void {
    for (const slot of slots) {
      this.of(slot.queue, nowMs).restore({ ...waitingJobOf(slot), waiting: slot.waiting }, nowMs);
    }
    for (const { queue, lane, jobs } of jobsByLane(rows).values()) {
      this.of(queue, nowMs).refill(lane, jobs, jobs.length < rowsMax, nowMs);
    }
  }

  /** Rows of lanes as they were asked for; a lane may have none. */
  refill(asked: readonly QueueRest[], found: readonly BacklogRow[], nowMs: number): void {
    const byLane = jobsByLane(found);
    for (const { queue, lane, rows } of asked) {
      const jobs = byLane.get(laneName(queue, lane))?.jobs ?? [];
      this.of(queue, nowMs).refill(lane, jobs, jobs.length < rows, nowMs);
    }
  }

  /** Lanes of which more is to be fetched. */
  cutLanes(): readonly QueueRest[] {
    return [...this.#queues.values()].flatMap((queue) =>
      queue.cutLanes().map((lane) => ({ queue: queue.name, ...lane })),
    );
  }

  /** Up to so many jobs that may go now, a turn a queue. */
  pick(max: number, nowMs: number): WaitingJob[] {
    const picked: WaitingJob[] = [];
    let open = [...this.#queues.values()].filter(({ hasWaiting }) => hasWaiting);
    while (open.length > 0 && picked.length < max) {
      const still: QueueSchedule[] = [];
      for (const queue of open) {
        if (picked.length >= max) break;
        const job = queue.pick(nowMs);
        if (job === undefined) continue;
        picked.push(job);
        still.push(queue);
      }
      open = still;
    }
    return picked;
  }

  /** When the clock alone lets something go; Infinity: never. */
  opensAtMs(nowMs: number): number {
    return Math.min(Infinity, ...[...this.#queues.values()].map((queue) => queue.opensAtMs(nowMs)));
  }

  /** Forgets what has nothing left. */
  tidy(nowMs: number): void {
    for (const [name, queue] of this.#queues) {
      if (queue.isEmpty) this.#queues.delete(name);
      else queue.tidy(nowMs);
    }
  }
}
