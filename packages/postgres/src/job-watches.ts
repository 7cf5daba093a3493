/**
 * Reads watched jobs for all the watches of a process: one statement a round for every job that is
 * due. A job is due when it is new, when a notification says that it has changed, a second after
 * workers were asked to tell of it, and otherwise now and then. Rounds follow each other and never
 * overlap; a notification is only a hint, and what it missed is found by the next look.
 *
 * Rows of the table `watch` make workers tell. Each round brings them in line with what is watched,
 * so a row that got lost comes back, and one that was left behind ends with its lease.
 */

import { backoffDelayMs, defaultRetryPolicy, type Logger, newJobId } from "@waybill/core";
import type { Row } from "./executor.ts";
import type { JobHints } from "./job-hints.ts";
import type { JsonRow } from "./json-row.ts";
import type { JobWatch, WatchedRow, WatchHost } from "./job-watch.ts";
import { isLastingError } from "./lasting-error.ts";
import { settlesWithin } from "./settles-within.ts";
import type { Statements } from "./statements.ts";
import type { RunStatement } from "./transactions.ts";

/** Runs `work` in a transaction of its own. */
export type InTransaction = <T>(work: (run: RunStatement) => Promise<T>) => Promise<T>;

/** Options of {@link JobWatches}. */
export interface JobWatchesOptions {
  readonly statements: Statements;
  readonly inTransaction: InTransaction;
  readonly logger: Logger;
  /** Makes what hears of changes, to be run while jobs are watched; undefined where nothing does. */
  makeHints(on: { heard(id: string): void; changed(): void }): JobHints | undefined;
}

/** A watched job, and when it is to be read. */
interface Entry {
  readonly watches: Set<JobWatch>;
  dueAtMs: number;
}

/** A transaction that reads. What it finds after its time is of no use. */
interface Round {
  readonly due: ReadonlyMap<string, readonly JobWatch[]>;
  late: boolean;
}

const safetyMs = 5_000;
const pollMs = 500;
/** Workers learn within half a second that somebody watches; what changed before is read then. */
const againMs = 1_000;
const renewMs = 20_000;
const betweenRoundsMs = 50;
const roundMaxMs = 15_000;
const releaseMaxMs = 2_000;
/** The connection that hears is kept for the next watch. */
const lingerMs = 1_000;
const tryAgain = {
  ...defaultRetryPolicy,
  initialDelayMs: 250,
  maxDelayMs: 5_000,
  jitter: "equal",
} as const;

/** See the head of the file. */
export class JobWatches implements WatchHost {
  readonly #options: JobWatchesOptions;
  readonly #watcher = newJobId();
  readonly #entries = new Map<string, Entry>();
  /** Jobs that have a row of ours in `watch`, as far as is known. */
  #registered = new Set<string>();
  #renewAtMs = 0;
  #isRunning = false;
  #roundAtMs = Number.NEGATIVE_INFINITY;
  /** Transactions that have not come back; a dead connection may keep one for minutes. */
  readonly #open = new Set<Promise<unknown>>();
  #kicked = Promise.withResolvers<void>();
  #roundDone = Promise.withResolvers<void>();
  #hints: JobHints | undefined;
  #linger: NodeJS.Timeout | undefined;

  constructor(options: JobWatchesOptions) {
    this.#options = options;
  }

  join(watch: JobWatch): void {
    const entry = this.#entries.get(watch.id) ?? { watches: new Set(), dueAtMs: 0 };
    this.#entries.set(watch.id, entry);
    entry.watches.add(watch);
    entry.dueAtMs = 0;
    this.#kicked.resolve();
    if (!this.#isRunning) void this.#run();
  }

  async leave(watch: JobWatch): Promise<void> {
    const entry = this.#entries.get(watch.id);
    entry?.watches.delete(watch);
    if (entry?.watches.size === 0) this.#entries.delete(watch.id);
    this.#kicked.resolve();
    const until = performance.now() + releaseMaxMs;
    while (this.#isRunning && this.#registered.has(watch.id) && !this.#entries.has(watch.id)) {
      const leftMs = until - performance.now();
      // Without the database the row stays for its lease, which is no reason to hold anybody up.
      if (leftMs <= 0 || !(await settlesWithin(this.#roundDone.promise, leftMs))) return;
    }
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    this.#listen();
    // Watches that begin together are read together.
    await new Promise((resolve) => setImmediate(resolve));
    for (let failures = 0; this.#entries.size > 0 || this.#left().length > 0;) {
      try {
        await this.#untilDue();
        await this.#round();
        failures = 0;
      } catch (error) {
        failures += 1;
        if (isLastingError(error)) this.#failAll(error);
        else if (failures === 1) {
          this.#options.logger.warn({ err: error }, "watched jobs cannot be read, trying again");
        }
        // Nobody waits for the rows that are left: they end with their lease.
        if (this.#entries.size === 0) this.#registered = new Set();
        else await this.#backOff(backoffDelayMs(tryAgain, failures, Math.random));
      }
      this.#roundDone.resolve();
      this.#roundDone = Promise.withResolvers();
    }
    this.#isRunning = false;
    this.#linger = setTimeout(() => {
      this.#hints?.stop();
      this.#hints = undefined;
    }, lingerMs).unref();
  }

  #listen(): void {
    clearTimeout(this.#linger);
    if (this.#hints !== undefined) return;
    this.#hints = this.#options.makeHints({
      heard: (id) => {
        const entry = this.#entries.get(id);
        if (entry === undefined) return;
        entry.dueAtMs = 0;
        this.#kicked.resolve();
      },
      // Whatever was told while nobody heard is read now.
      changed: () => {
        for (const entry of this.#entries.values()) entry.dueAtMs = 0;
        this.#kicked.resolve();
      },
    });
    void this.#hints?.run();
  }

  get #lookMs(): number {
    return this.#hints?.listening === true ? safetyMs : pollMs;
  }

  /** Jobs with a row in `watch` that nobody watches any more. */
  #left(): string[] {
    return [...this.#registered].filter((id) => !this.#entries.has(id));
  }

  #untilNextMs(): number {
    if (this.#left().length > 0) return 0;
    let atMs = this.#registered.size > 0 ? this.#renewAtMs : Number.POSITIVE_INFINITY;
    for (const { dueAtMs } of this.#entries.values()) atMs = Math.min(atMs, dueAtMs);
    const earliestMs = Math.max(atMs, this.#roundAtMs + betweenRoundsMs);
    return Math.max(0, earliestMs - performance.now());
  }

  async #untilDue(): Promise<void> {
    for (;;) {
      const ms = this.#untilNextMs();
      if (ms <= 0) return;
      await this.#pause(ms);
    }
  }

  /** Waits so long, or until something has happened. */
  async #pause(ms: number): Promise<void> {
    this.#kicked = Promise.withResolvers();
    await settlesWithin(this.#kicked.promise, Math.min(ms, safetyMs));
  }

  /** Waits so long, whatever happens meanwhile, unless nobody watches any more. */
  async #backOff(ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (this.#entries.size > 0 && performance.now() < until) {
      await this.#pause(until - performance.now());
    }
  }

  async #round(): Promise<void> {
    // Two at most: more could take every connection of the application's pool.
    while (this.#open.size > 1) await Promise.race(this.#open);
    this.#roundAtMs = performance.now();
    // What is due soon is read along, so that rounds do not multiply.
    const soonMs = this.#roundAtMs + this.#lookMs / 4;
    const due = new Map<string, readonly JobWatch[]>();
    for (const [id, entry] of this.#entries) {
      if (entry.dueAtMs > soonMs) continue;
      due.set(id, [...entry.watches]);
      entry.dueAtMs = Number.POSITIVE_INFINITY;
    }
    const round: Round = { due, late: false };
    const work = this.#transact(round);
    const settled = work.catch(() => undefined);
    this.#open.add(settled);
    void settled.then(() => this.#open.delete(settled));
    try {
      if (!(await settlesWithin(work, roundMaxMs))) {
        throw new Error(`the database did not answer within ${roundMaxMs} ms`);
      }
    } catch (error) {
      round.late = true;
      for (const id of due.keys()) this.#dueAt(id, 0);
      throw error;
    }
    const nextMs = performance.now() + this.#lookMs * (0.9 + Math.random() / 10);
    for (const id of due.keys()) this.#dueAt(id, nextMs);
  }

  /** When to read a job at the latest. */
  #dueAt(id: string, atMs: number): void {
    const entry = this.#entries.get(id);
    if (entry !== undefined) entry.dueAtMs = Math.min(entry.dueAtMs, atMs);
  }

  async #transact(round: Round): Promise<void> {
    const { statements, inTransaction } = this.#options;
    const isRenewing = this.#registered.size > 0 && performance.now() >= this.#renewAtMs;
    let registered = this.#registered;
    let fresh: string[] = [];
    await inTransaction(async (run) => {
      if (isRenewing) {
        const kept = await run(statements.renew_watches, [this.#watcher]);
        registered = new Set(kept.map(({ id }) => String(id)));
      }
      if (round.due.size > 0) {
        const rows = await run(statements.read_watched, [JSON.stringify([...round.due.keys()])]);
        if (round.late) return;
        this.#deliver(round.due, rows);
      }
      const left = this.#left();
      if (left.length > 0) {
        await run(statements.unwatch_jobs, [this.#watcher, JSON.stringify(left)]);
        registered = registered.difference(new Set(left));
      }
      // Where nothing is heard nobody needs to tell.
      if (this.#hints?.listening !== true) return;
      fresh = [...this.#entries.keys()].filter((id) => !registered.has(id));
      if (fresh.length > 0) {
        await run(statements.watch_jobs, [this.#watcher, JSON.stringify(fresh)]);
      }
    });
    if (round.late) return;
    const nowMs = performance.now();
    if (isRenewing || this.#registered.size === 0) this.#renewAtMs = nowMs + renewMs;
    this.#registered = registered.union(new Set(fresh));
    for (const id of fresh) this.#dueAt(id, nowMs + againMs);
  }

  #deliver(due: Round["due"], rows: readonly Row[]): void {
    const found = Map.groupBy(
      rows.map((row): WatchedRow => {
        const text = String(row["job"]);
        return { text, row: JSON.parse(text) as JsonRow };
      }),
      ({ row }) => String(row["id"]),
    );
    for (const [id, watches] of due) {
      for (const watch of watches) watch.take(found.get(id) ?? []);
    }
  }

  #failAll(error: unknown): void {
    for (const { watches } of this.#entries.values()) {
      for (const watch of watches) watch.fail(error);
    }
  }
}
