/**
 * Progress on its way into the database: apart from the job's effects, so that it can be seen before
 * they commit, and thrown away where it cannot be written, so that it never fails a job.
 */

import { setTimeout as delay } from "node:timers/promises";
import { issuesAt, type Logger, PayloadError, type ValueIssue } from "@waybill/core";
import type { InboxStore, OwnedJob, ProgressReport } from "@waybill/postgres";
import { within } from "./waiting.ts";

/** What a handler reports; what is left out stays as it was. */
export interface Progress {
  /** What it is doing, in a few words; at most 200 characters. */
  readonly stage?: string | undefined;
  /** Units that are done: an integer from 0 to 2^53 - 1, not above `total`. */
  readonly done?: number | undefined;
  /** Units in all, where that is known: only then there is a percentage. */
  readonly total?: number | undefined;
}

/** Longest stage, in characters. */
const stageLength = 200;
/** A report is written so many milliseconds after the last one at the latest. */
const writeEveryMs = 1_000;
/** A new stage, or a hundredth of the total, is worth a write earlier than that, but no earlier than this. */
const writeSoonMs = 200;
/** Milliseconds that reports of several jobs wait for each other. */
const gatherMs = 20;
/** Milliseconds that the end of an attempt waits for its last report. */
const lastWriteMs = 1_000;

function countIssue(value: unknown): string | undefined {
  return Number.isSafeInteger(value) && Number(value) >= 0
    ? undefined
    : "must be an integer from 0 to 9007199254740991";
}

/** What is wrong with a report. */
function issuesOf(progress: Progress, merged: Progress): readonly ValueIssue[] {
  if (typeof progress !== "object" || progress === null) {
    return [{ path: "", message: "must be an object" }];
  }
  const issues: ValueIssue[] = [];
  const add = (path: string, message: string): void => void issues.push({ path, message });
  for (const key of Object.keys(progress)) {
    if (!["stage", "done", "total"].includes(key)) add(key, "is not known; use stage, done, total");
  }
  const { stage, done, total } = merged;
  if (stage !== undefined) {
    if (typeof stage !== "string") add("stage", "must be a text");
    else if (stage.length > stageLength)
      add("stage", `has ${stage.length} characters, the limit is ${stageLength}`);
    else if (stage.includes("\u0000") || !stage.isWellFormed())
      add("stage", "holds a NUL character or a lone surrogate");
  }
  const doneIssue = done === undefined ? undefined : countIssue(done);
  const totalIssue = total === undefined ? undefined : countIssue(total);
  if (doneIssue !== undefined) add("done", doneIssue);
  if (totalIssue !== undefined) add("total", totalIssue);
  if (doneIssue === undefined && totalIssue === undefined && done !== undefined) {
    if (total !== undefined && done > total) add("done", `is ${done}, above the total of ${total}`);
  }
  return issues;
}

/** Writes the reports of all jobs of a worker, gathered; see the head of the file. */
export class ProgressWriter {
  readonly #store: Pick<InboxStore, "saveProgress">;
  readonly #logger: Logger;
  readonly #onWritten: (jobId: string) => void;
  #waiting = new Map<string, ProgressReport>();
  #writing: Promise<void> | undefined;

  constructor(
    store: Pick<InboxStore, "saveProgress">,
    logger: Logger,
    onWritten: (jobId: string) => void,
  ) {
    this.#store = store;
    this.#logger = logger;
    this.#onWritten = onWritten;
  }

  /** Resolves when the report is written, or was thrown away. Never rejects. */
  async write(report: ProgressReport): Promise<void> {
    this.#waiting.set(`${report.queue}\n${report.id}`, report);
    // A statement that is under way does not have it.
    await this.#writing;
    this.#writing ??= this.#flush().finally(() => (this.#writing = undefined));
    await this.#writing;
  }

  async #flush(): Promise<void> {
    await delay(gatherMs);
    const reports = [...this.#waiting.values()];
    this.#waiting = new Map();
    if (reports.length === 0) return;
    try {
      for (const { id } of await this.#store.saveProgress(reports)) this.#onWritten(id);
    } catch (err) {
      this.#logger.debug({ err, jobs: reports.length }, "progress could not be written");
    }
  }
}

/** Takes the reports of one attempt, and lets through what is worth a write. */
export class ProgressReporter {
  readonly #owned: OwnedJob;
  readonly #jobName: string;
  readonly #writer: Pick<ProgressWriter, "write">;
  #current: Progress = {};
  #written: Progress | undefined;
  #writtenAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  /** When the timer writes. */
  #writeAt = 0;
  #ended = false;
  /** The last write, which may be under way. */
  #lastWrite: Promise<void> = Promise.resolve();

  constructor(owned: OwnedJob, jobName: string, writer: Pick<ProgressWriter, "write">) {
    this.#owned = owned;
    this.#jobName = jobName;
    this.#writer = writer;
  }

  /**
   * Takes a report.
   *
   * @throws PayloadError for values that are no progress
   */
  report(progress: Progress): void {
    const given = Object.entries(progress ?? {}).filter(([, value]) => value !== undefined);
    const merged: Progress = { ...this.#current, ...Object.fromEntries(given) };
    const issues = issuesOf(progress, merged);
    if (issues.length > 0) {
      throw new PayloadError(this.#jobName, issuesAt("(progress)", issues));
    }
    if (this.#ended) return;
    this.#current = merged;
    const wait = this.#waitMs();
    if (wait <= 0) this.#write();
    else this.#writeIn(wait);
  }

  /** Writes the last report, if it is not written yet. Never rejects. */
  async end(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#timer);
    if (this.#written === undefined && Object.keys(this.#current).length === 0) return;
    if (this.#written !== this.#current) this.#write();
    await within(lastWriteMs, this.#lastWrite);
  }

  /** Milliseconds until the present report is worth a write. */
  #waitMs(): number {
    const last = this.#written;
    const { stage, done = 0, total = 0 } = this.#current;
    if (last === undefined) return 0;
    const since = performance.now() - this.#writtenAt;
    const step = done - (last.done ?? 0);
    const isFar = total > 0 && step >= total / 100;
    const isLast = total > 0 && done === total;
    if (isLast && step > 0) return 0;
    const isNew = last.stage !== stage || last.total !== this.#current.total;
    return (isNew || isFar ? writeSoonMs : writeEveryMs) - since;
  }

  /** A report that is worth a write sooner does not wait for the time of the one before. */
  #writeIn(ms: number): void {
    const at = performance.now() + ms;
    if (this.#timer !== undefined && this.#writeAt <= at) return;
    clearTimeout(this.#timer);
    this.#writeAt = at;
    this.#timer = setTimeout(() => this.#write(), ms).unref();
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#written = this.#current;
    this.#writtenAt = performance.now();
    const { stage = null, done = null, total = null } = this.#current;
    this.#lastWrite = this.#writer.write({ ...this.#owned, stage, done, total });
  }
}
