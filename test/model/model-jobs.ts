/**
 * What the statements on inbox, timers, workers and dead letters do, as plain functions on one clock.
 * `test/worker/job-statements.test.ts` runs the same steps here and on PostgreSQL and compares;
 * the claim is the table of `protocol-model.ts`, which is compared there and in `protocol.test.ts`.
 * One queue; a message has no content but what the protocol looks at.
 */

import type { JobState } from "@waybill/core";
import { claimOf, type ModelRow as ClaimRow } from "../worker/support/protocol-model.ts";

/** A message, on the wire or in a timer. */
export interface Message {
  readonly id: string;
  readonly dispatch: number;
  /** The death that it is the dead letter of; 0 for none. */
  readonly death: number;
  readonly expiresAt: number | null;
}

/** A row of the inbox. */
export type InboxRow = Omit<ClaimRow, "owner"> & { readonly owner: string | null };

/** What is to be published: a job, or the copy of one for its dead-letter queue. */
export type Kind = "job" | "dead_letter";

/** A row of the timers. */
export interface Timer {
  readonly kind: Kind;
  readonly message: Message;
  /** Infinity: not before somebody says so. */
  readonly fireAt: number;
  readonly reason: "retry" | "held" | "lease" | "unroutable" | "nacked" | "refused";
  readonly owner: string | null;
  readonly failures: number;
}

/** A worker's presence. */
export interface WorkerRow {
  readonly leaseUntil: number;
  /** Null behind a transaction pooler: no session lock. */
  readonly isLocked: boolean | null;
}

/** A row that the statements write into the outbox. */
export interface Dispatched {
  readonly kind: Kind;
  readonly message: Message;
  readonly failures: number;
}

/** What proves that a job is an attempt's. */
export interface Owned {
  readonly id: string;
  readonly token: number;
  readonly isLeased: boolean;
}

/** A claimed row, as `verdictOf` reads it. */
export interface Claimed extends InboxRow {
  readonly ended: boolean;
}

const brokerSaid = (reason: Timer["reason"]): boolean =>
  reason === "unroutable" || reason === "nacked" || reason === "refused";
const placeOf = ({ id, dispatch }: Message, kind: Kind = "job"): string =>
  `${kind}/${id}/${dispatch}`;

/** See the head of the file. */
export class ModelJobs {
  nowMs = 0;
  readonly inbox = new Map<string, InboxRow>();
  /** By kind, id and dispatch. */
  readonly timers = new Map<string, Timer>();
  readonly workers = new Map<string, WorkerRow>();
  readonly deadLetters = new Map<string, Message>();
  /** All that was ever written to the outbox of kind job, committed. */
  readonly dispatched: Message[] = [];
  readonly #write: (rows: readonly Dispatched[]) => void;

  constructor(write: (rows: readonly Dispatched[]) => void) {
    this.#write = (rows) => {
      this.dispatched.push(
        ...rows.filter(({ kind }) => kind === "job").map(({ message }) => message),
      );
      write(rows);
    };
  }

  /** waybill.worker_alive */
  isAlive(owner: string | null): boolean {
    const worker = owner === null ? undefined : this.workers.get(owner);
    return worker !== undefined && worker.leaseUntil > this.nowMs && worker.isLocked !== false;
  }

  /** claim_deliveries.sql, of one delivery */
  claim(me: string, message: Message): Claimed {
    const before = this.inbox.get(message.id);
    const role = (owner: string | null): ClaimRow["owner"] =>
      owner === null ? null : owner === me ? "me" : this.isAlive(owner) ? "alive" : "dead";
    const isExpired = message.expiresAt !== null && message.expiresAt <= this.nowMs;
    const { verdict, row } = claimOf(
      before === undefined ? undefined : { ...before, owner: role(before.owner) },
      { dispatch: message.dispatch, death: message.death, isExpired },
    );
    const after = { ...row, owner: row.owner === "me" ? me : (before?.owner ?? null) };
    if (before?.state === "failed" && verdict === "run") this.deadLetters.delete(message.id);
    this.inbox.set(message.id, after);
    return { ...after, ended: verdict === "cancelled" };
  }

  #mine({ id, token }: Pick<Owned, "id" | "token">): InboxRow | undefined {
    const row = this.inbox.get(id);
    return row?.state === "running" && row.token === token ? row : undefined;
  }

  #dropTimers(id: string, is: (timer: Timer) => boolean = () => true): void {
    for (const [place, timer] of this.timers) {
      if (timer.kind === "job" && timer.message.id === id && is(timer)) this.timers.delete(place);
    }
  }

  #dropLease({ id, isLeased }: Owned): void {
    if (isLeased) this.#dropTimers(id, ({ reason }) => reason === "lease");
  }

  /** guard_lease.sql: true while the job is this attempt's */
  guard(owned: Owned): boolean {
    return this.#mine(owned) !== undefined;
  }

  /** complete_job.sql and complete_jobs.sql; false: not this attempt's any more */
  complete(owned: Owned): boolean {
    const row = this.#mine(owned);
    if (row === undefined) return false;
    this.inbox.set(owned.id, { ...row, state: "succeeded" });
    this.#dropLease(owned);
    return true;
  }

  /** cancel_attempts.sql */
  cancelAttempt(owned: Owned): boolean {
    const row = this.#mine(owned);
    if (row === undefined) return false;
    this.inbox.set(owned.id, { ...row, state: "cancelled" });
    this.#dropLease(owned);
    return true;
  }

  /** fail_attempts.sql; `delayMs` undefined: dead-letter. Returns the state, or undefined */
  fail(owned: Owned, message: Message, delayMs: number | undefined): JobState | undefined {
    const row = this.#mine(owned);
    if (row === undefined) return undefined;
    if (row.isCancelRequested) {
      this.inbox.set(owned.id, { ...row, state: "cancelled" });
      this.#dropLease(owned);
      return "cancelled";
    }
    if (delayMs === undefined) {
      const deaths = row.deaths + 1;
      this.inbox.set(owned.id, { ...row, state: "failed", deaths });
      this.#dropLease(owned);
      const letter: Message = {
        ...message,
        dispatch: row.dispatch,
        death: deaths,
        expiresAt: null,
      };
      this.deadLetters.set(owned.id, letter);
      this.#write([{ kind: "dead_letter", message: letter, failures: 0 }]);
      return "failed";
    }
    this.inbox.set(owned.id, { ...row, state: "retry_waiting" });
    this.#upsert(
      { ...message, dispatch: row.dispatch + 1, death: 0 },
      { fireAt: this.nowMs + delayMs, reason: "retry", owner: null },
    );
    return "retry_waiting";
  }

  #upsert(message: Message, values: Pick<Timer, "fireAt" | "reason" | "owner">): void {
    const there = this.timers.get(placeOf(message));
    this.timers.set(placeOf(message), { kind: "job", message, failures: 0, ...there, ...values });
  }

  /** release_jobs.sql; `message` is that of the delivery handed back, of which a copy follows from the outbox */
  release(owned: Owned, message: Message): boolean {
    const { dispatch } = message;
    const row = this.#mine(owned);
    if (row === undefined) return false;
    this.inbox.set(owned.id, {
      ...row,
      state: "retry_waiting",
      attempt: Math.max(0, row.attempt - 1),
      dispatch: Math.min(row.dispatch, dispatch) - 1,
      owner: null,
    });
    if (owned.isLeased) {
      for (const [place, timer] of this.timers) {
        if (timer.message.id !== owned.id || timer.reason !== "lease") continue;
        this.timers.set(place, { ...timer, fireAt: this.nowMs, reason: "held", owner: null });
      }
    } else if (!this.timers.has(placeOf(message))) {
      this.#upsert(
        { ...message, death: 0 },
        { fireAt: this.nowMs + 10_000, reason: "held", owner: null },
      );
    }
    return true;
  }

  /** hold_jobs.sql */
  hold(owned: Owned, message: Message): boolean {
    const row = this.#mine(owned);
    if (row === undefined) return false;
    this.#upsert(
      { ...message, dispatch: row.dispatch + 1, death: 0 },
      { fireAt: Infinity, reason: "lease", owner: row.owner },
    );
    return true;
  }

  /** park_messages.sql, of a copy of a running job */
  park(message: Message, owner: string | null, delayMs: number): void {
    const leaseUntil = owner === null ? undefined : this.workers.get(owner)?.leaseUntil;
    const fireAt = Math.max(this.nowMs, leaseUntil ?? this.nowMs) + delayMs;
    const there = this.timers.get(placeOf(message));
    if (there !== undefined && there.reason !== "held") return;
    this.#upsert(message, { fireAt, reason: "held", owner });
  }

  /** park_dispatches.sql, of one row; `delayMs` null: until an operator says so */
  parkDispatch(row: Dispatched, reason: Timer["reason"], delayMs: number | null): void {
    const { kind, message } = row;
    const place = placeOf(message, kind);
    const fireAt = delayMs === null ? Infinity : this.nowMs + delayMs;
    const there = this.timers.get(place);
    const failures = row.failures + 1;
    if (there === undefined) {
      this.timers.set(place, { kind, message, fireAt, reason, owner: null, failures });
      return;
    }
    const isSame = brokerSaid(there.reason);
    this.timers.set(place, {
      ...there,
      fireAt: isSame ? fireAt : Math.min(there.fireAt, fireAt),
      reason: isSame ? reason : there.reason,
      failures: Math.max(there.failures, failures),
    });
  }

  /** fire_timers.sql */
  fireTimers(limit: number): number {
    const due = [...this.timers]
      .filter(([, { fireAt }]) => fireAt <= this.nowMs)
      .toSorted(([, a], [, b]) => a.fireAt - b.fireAt)
      .slice(0, limit);
    for (const [place] of due) this.timers.delete(place);
    if (due.length > 0) {
      this.#write(due.map(([, { kind, message, failures }]) => ({ kind, message, failures })));
    }
    return due.length;
  }

  /** fire_leases.sql; returns the owners whose lock is missing while their lease runs */
  fireLeases(missingBefore: readonly string[]): readonly string[] {
    const missing = new Set<string>();
    for (const [place, timer] of this.timers) {
      const { owner, reason } = timer;
      if (owner === null || this.isAlive(owner)) continue;
      const runs = (this.workers.get(owner)?.leaseUntil ?? this.nowMs) > this.nowMs;
      if (runs) missing.add(owner);
      if (reason === "held" || (reason === "lease" && (!runs || missingBefore.includes(owner)))) {
        this.timers.set(place, { ...timer, fireAt: this.nowMs, reason: "held", owner: null });
      }
    }
    return [...missing];
  }

  /** redispatch_orphans.sql, without its minute for workers that have left no row */
  redispatchOrphans(): number {
    const orphans = [...this.inbox].flatMap(([id, row]) => {
      const lease = this.workers.get(row.owner ?? "")?.leaseUntil ?? 0;
      if (row.state !== "running" || lease > this.nowMs) return [];
      const copies = this.dispatched.filter((message) => message.id === id);
      const isComing =
        copies.some(({ dispatch }) => dispatch > row.dispatch) ||
        [...this.timers.values()].some(({ kind, message }) => kind === "job" && message.id === id);
      const [last] = copies.toSorted((a, b) => b.dispatch - a.dispatch);
      if (isComing || last === undefined) return [];
      return [{ ...last, dispatch: row.dispatch + 1 }];
    });
    if (orphans.length > 0) {
      this.#write(orphans.map((message) => ({ kind: "job", message, failures: 0 })));
    }
    return orphans.length;
  }

  /** cancel_job.sql, of a job that exists */
  cancelJob(id: string): JobState | undefined {
    const row = this.inbox.get(id);
    if (row === undefined) {
      this.inbox.set(id, {
        state: "cancelled",
        attempt: 0,
        crashes: 0,
        dispatch: 1,
        deaths: 0,
        token: 1,
        owner: null,
        isCancelRequested: true,
      });
      this.#dropTimers(id);
      return "cancelled";
    }
    if (row.state === "running") {
      this.inbox.set(id, { ...row, isCancelRequested: true });
      return "running";
    }
    if (row.state !== "queued" && row.state !== "retry_waiting") return undefined;
    this.inbox.set(id, { ...row, state: "cancelled", isCancelRequested: true });
    this.#dropTimers(id);
    return "cancelled";
  }

  /** retry_job.sql: an operator redrives a failed job */
  retryJob(id: string): boolean {
    const row = this.inbox.get(id);
    const letter = this.deadLetters.get(id);
    if (row?.state !== "failed" || letter === undefined) return false;
    this.inbox.set(id, {
      ...row,
      state: "retry_waiting",
      attempt: 0,
      crashes: 0,
      isCancelRequested: false,
    });
    this.deadLetters.delete(id);
    const message: Message = { ...letter, dispatch: row.dispatch + 1, death: 0 };
    this.#write([{ kind: "job", message, failures: 0 }]);
    return true;
  }

  /** renew_worker.sql; false: the lease was over */
  renewWorker(id: string, leaseMs: number): boolean {
    const worker = this.workers.get(id);
    if (worker === undefined || worker.leaseUntil <= this.nowMs) return false;
    this.workers.set(id, { ...worker, leaseUntil: this.nowMs + leaseMs });
    return true;
  }
}
