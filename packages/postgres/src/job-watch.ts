import { ConfigError, isTerminal, JobNotFoundError } from "@waybill/core";
import type { JsonRow } from "./json-row.ts";
import { type JobSnapshot, jobSnapshotOf } from "./job-snapshot.ts";

/** Who reads jobs for those that watch. */
export interface WatchHost {
  join(watch: JobWatch): void;
  /** Resolves, never rejects, once nothing is kept for the watch. */
  leave(watch: JobWatch): Promise<void>;
}

/** A row of read_watched.sql, and its text, by which changes are told. */
export interface WatchedRow {
  readonly row: JsonRow;
  readonly text: string;
}

/** What {@link JobWatch} is made of. */
export interface JobWatchOptions {
  readonly id: string;
  readonly queue: string | undefined;
  readonly signals: readonly AbortSignal[];
  readonly host: WatchHost;
}

/**
 * One loop over the changes of a job. It keeps the newest state only, so a slow reader misses what
 * has passed and never the end.
 */
export class JobWatch implements AsyncIterableIterator<JobSnapshot, undefined> {
  readonly id: string;
  readonly #host: WatchHost;
  readonly #signals: readonly AbortSignal[];
  #queue: string | undefined;
  #begun = false;
  #over = false;
  #seen = "";
  #latest: JobSnapshot | undefined;
  #failure: { readonly error: unknown } | undefined;
  #left: Promise<void> | undefined;
  #news = Promise.withResolvers<void>();

  constructor({ id, queue, signals, host }: JobWatchOptions) {
    this.id = id;
    this.#queue = queue;
    this.#signals = signals;
    this.#host = host;
  }

  /** True once nothing more comes in. */
  get over(): boolean {
    return this.#over;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<JobSnapshot, undefined>> {
    this.#begin();
    for (;;) {
      const value = this.#latest;
      if (value !== undefined) {
        this.#latest = undefined;
        return { value, done: false };
      }
      if (this.#over) {
        await this.#left;
        const failure = this.#failure;
        this.#failure = undefined;
        if (failure !== undefined) throw failure.error;
        return { value: undefined, done: true };
      }
      const news = this.#news;
      await news.promise;
      if (this.#news === news && !this.#over) this.#news = Promise.withResolvers();
    }
  }

  async return(): Promise<IteratorResult<JobSnapshot, undefined>> {
    this.#latest = undefined;
    this.#failure = undefined;
    this.#end();
    await this.#left;
    return { value: undefined, done: true };
  }

  /** What a read has found. */
  take(found: readonly WatchedRow[]): void {
    if (this.#over) return;
    const mine = found.filter(({ row }) => row["queue"] === (this.#queue ?? row["queue"]));
    const [first] = mine;
    if (first === undefined) return this.fail(new JobNotFoundError(this.id));
    const queues = new Set(mine.map(({ row }) => String(row["queue"])));
    if (queues.size > 1) {
      const message = `is needed: the id is known in ${[...queues].toSorted().join(", ")}`;
      return this.fail(new ConfigError(`job ${this.id}`, [{ path: "queue", message }]));
    }
    // A delivery to another subscription that turns up later is another job.
    this.#queue = String(first.row["queue"]);
    if (first.text === this.#seen) return;
    this.#seen = first.text;
    this.#latest = jobSnapshotOf(first.row);
    if (isTerminal(this.#latest.state)) this.#end();
    else this.#news.resolve();
  }

  /** Ends it with an error, after what is still to be read. */
  fail(error: unknown): void {
    if (this.#over) return;
    this.#failure = { error };
    this.#end();
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    const aborted = this.#signals.find((signal) => signal.aborted);
    if (aborted !== undefined) {
      this.#failure = { error: aborted.reason };
      this.#over = true;
    }
    if (this.#over) return;
    for (const signal of this.#signals) signal.addEventListener("abort", this.#abort);
    this.#host.join(this);
  }

  readonly #abort = (event: Event): void => {
    this.#latest = undefined;
    this.fail((event.target as AbortSignal).reason);
  };

  #end(): void {
    if (!this.#over) {
      this.#over = true;
      for (const signal of this.#signals) signal.removeEventListener("abort", this.#abort);
      if (this.#begun) this.#left = this.#host.leave(this);
    }
    this.#begun = true;
    this.#news.resolve();
  }
}
