import type { WaitingJob } from "./waiting-job.ts";

/** Rows of a queue that are kept in memory, about; the others wait in the backlog. */
const queueRows = 100_000;
/** Rows of a lane that are kept in memory, at most and at least. */
export const laneMax = 1_000;
const laneMin = 20;
/** Rows that are fetched at a time, about. */
const fetchRows = 5_000;

/** Rows of each lane that are kept in memory where there are so many lanes. */
export function laneRows(lanes: number): number {
  return Math.max(laneMin, Math.min(laneMax, Math.floor(queueRows / Math.max(1, lanes))));
}

/** A lane of which so many rows are to be fetched, behind a place. */
export interface LaneRest {
  readonly lane: string;
  readonly after: number;
  readonly rows: number;
}

/** Lanes of which more is to be fetched: those of which half is gone, the emptiest first. */
export function cutLanes(lanes: ReadonlyMap<string, Lane>): readonly LaneRest[] {
  const rowsMax = laneRows(lanes.size);
  const wanting: Lane[] = [];
  // Seldom any, of perhaps very many.
  for (const lane of lanes.values()) {
    if (lane.isCut && lane.jobs.length <= rowsMax / 2) wanting.push(lane);
  }
  return wanting
    .toSorted((a, b) => a.jobs.length - b.jobs.length)
    .slice(0, Math.ceil(fetchRows / rowsMax))
    .map(({ id, lastPlace, jobs }) => ({
      lane: id,
      after: lastPlace,
      rows: rowsMax - jobs.length,
    }));
}

/** Jobs that go one after the other. */
export class Lane {
  readonly id: string;
  /** In the order of their places: the first ones of the lane. */
  readonly jobs: WaitingJob[] = [];
  /** True where more of them are in the backlog than in memory. */
  isCut = false;
  /** Place of the last row that was in memory. */
  lastPlace = -1;
  /** Of an ordering key: the job that is dispatched, or waits for its retry. */
  blockedBy: string | undefined;
  /** When it last had a turn, or came to have something to do; by the monotonic clock. */
  sinceMs = 0;
  /** Its place in a ring, of which there is one at most; an older one is stale. 0: it is in none. */
  ticket = 0;
  /** Waits until its key is open. */
  isShut = false;

  constructor(id: string) {
    this.id = id;
  }

  /** True where it waits in a ring for its turn. */
  get isQueued(): boolean {
    return this.ticket !== 0;
  }

  get isIdle(): boolean {
    return this.jobs.length === 0 && !this.isCut && this.blockedBy === undefined;
  }

  /**
   * Adds the job behind the others; false: it stays in the backlog alone for now.
   *
   * @param rowsMax rows of a lane that are kept in memory
   */
  push(job: WaitingJob, rowsMax: number): boolean {
    if (this.isCut || this.jobs.length >= rowsMax) {
      this.isCut = true;
      return false;
    }
    this.jobs.push(job);
    this.lastPlace = Math.max(this.lastPlace, job.place);
    return true;
  }

  /** False where the job is behind what is in memory. */
  reaches(job: WaitingJob): boolean {
    return !this.isCut || job.place <= this.lastPlace;
  }

  /** Puts a job where its place is. */
  insert(job: WaitingJob): void {
    const index = this.jobs.findIndex(({ place }) => place > job.place);
    this.jobs.splice(index === -1 ? this.jobs.length : index, 0, job);
    this.lastPlace = Math.max(this.lastPlace, job.place);
  }

  remove(id: string): void {
    const index = this.jobs.findIndex((job) => job.id === id);
    if (index !== -1) this.jobs.splice(index, 1);
  }
}
