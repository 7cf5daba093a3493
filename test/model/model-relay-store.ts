/**
 * The relay's store over the model outbox. Every statement waits for the schedule, which lets the
 * server run it, answers, refuses, or runs it and loses the answer, in any order.
 */

import type { OutboxRow, PageLimits, RelayStore, StoredCursor } from "@waybill/postgres";
import { type Cursor, firstCursor } from "../../packages/relay/src/window-planner.ts";
import { type ModelRow, ModelOutbox, visibleIn, type Written } from "./model-outbox.ts";

/** A row of the outbox, all that the relay reads of it. */
export type RelayRow = Omit<OutboxRow, "tx" | "seq"> & ModelRow;

/** What becomes of a statement. */
export type StatementFate = "run" | "answer" | "refuse" | "lose";

interface Call {
  readonly relay: number;
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  /** Set once the server has run it. */
  ran: { readonly value: unknown } | undefined;
}

/** The database as the relays see it: outbox, term, cursor, parked rows. */
export class ModelRelayDatabase {
  readonly outbox = new ModelOutbox<RelayRow>();
  /** Rows that are safe: in a queue of the broker, or parked. Filled by the world too. */
  readonly safe = new Set<string>();
  epoch = 0;
  cursor: Cursor = firstCursor;
  /** Cursors that were saved over since the disk was written last: a crash may bring them back. */
  #volatile: Cursor[] = [];
  #calls: Call[] = [];

  get waiting(): number {
    return this.#calls.length;
  }

  /** Lets something happen to one of the statements that wait. */
  step(pick: number, fate: StatementFate): void {
    const call = this.#calls[pick % Math.max(1, this.#calls.length)];
    if (call === undefined) return;
    if (fate !== "refuse") call.ran ??= { value: call.run() };
    if (fate === "run") return;
    this.#calls = this.#calls.filter((each) => each !== call);
    if (fate === "answer") call.resolve(call.ran?.value);
    else call.reject(new Error("the connection to the database has ended"));
  }

  /** Answers all that waits now. */
  answerAll(): void {
    for (let left = this.#calls.length; left > 0; left -= 1) this.step(0, "answer");
  }

  /** Nobody waits for these any more: the process is dead. */
  forget(relay: number): void {
    this.#calls = this.#calls.filter((each) => each.relay !== relay);
  }

  commit(session: number): void {
    if (this.outbox.end(session, true).length > 0) this.#flush();
  }

  #flush(): void {
    this.#volatile = [];
  }

  /** The server dies and is there again: open transactions and at most so many saves are gone. */
  crash(savesLost: number): void {
    for (const session of this.outbox.sessions) this.outbox.end(session, false);
    while (this.#calls.length > 0) this.step(0, "refuse");
    for (let lost = 0; lost < savesLost; lost += 1) {
      this.cursor = this.#volatile.pop() ?? this.cursor;
    }
  }

  #save(cursor: Cursor): void {
    this.#checkPosition(cursor);
    this.#volatile.push(this.cursor);
    this.cursor = cursor;
  }

  /** Everything that a cursor claims to be published is safe. */
  #checkPosition({ snapshot, window, keyed, tx, seq }: Cursor): void {
    const published = visibleIn(snapshot ?? "1:1:");
    const inWindow = visibleIn(window ?? "1:1:");
    const isPassed = (row: Written<RelayRow>): boolean => {
      if (published(row.tx)) return true;
      if (!inWindow(row.tx)) return false;
      if (row.ordering_key !== null) return keyed && Number(row.seq) <= Number(seq);
      if (keyed) return true;
      return (
        Number(row.tx) < Number(tx) || (row.tx === tx && Number(row.seq) <= Number(seq ?? "-1"))
      );
    };
    for (const row of this.outbox.rows) {
      if (isPassed(row) && !this.safe.has(row.id)) {
        throw new Error(`the cursor passes ${row.id}, which is neither confirmed nor parked`);
      }
    }
  }

  /** The store of one relay. */
  storeOf(relay: number): RelayStore {
    const later = <T>(run: () => T): Promise<T> =>
      new Promise((resolve, reject) => {
        this.#calls.push({
          relay,
          run,
          resolve: (value) => resolve(value as T),
          reject,
          ran: undefined,
        });
      });
    const holds = (epoch: string): boolean => epoch === String(this.epoch);
    const { outbox } = this;
    const store: Partial<RelayStore> = {
      readWindow: (after, late, limits: PageLimits) =>
        later(() => outbox.read({ kind: "window", after, late }, limits)),
      readLatePage: (xids, tx, seq, limits) =>
        later(() => outbox.read({ kind: "late", xids, tx, seq }, limits)),
      readFreshPage: (until, tx, seq, limits) =>
        later(() => outbox.read({ kind: "fresh", until, tx, seq }, limits)),
      readKeyedPage: (bounds, seq, to, limits) =>
        later(() => outbox.read({ kind: "keyed", ...bounds, seq, to }, limits)),
      renewTerm: (epoch) => later(() => holds(epoch)),
      markOrigin: () => later(() => undefined),
      readCursor: (epoch) =>
        later(() => {
          if (!holds(epoch)) return undefined;
          const server = { storedSystem: null, system: null, storedOid: "1", oid: "1" };
          return { ...this.cursor, ...server, beyond: false };
        }),
      saveCursor: (epoch, cursor: StoredCursor) =>
        later(() => {
          if (holds(epoch)) this.#save(cursor);
          return holds(epoch);
        }),
      park: (epoch, rows) =>
        later(() => {
          if (!holds(epoch)) return;
          for (const { tx, seq } of rows) {
            const row = outbox.rows.find((each) => each.tx === tx && each.seq === seq);
            if (row !== undefined) this.safe.add(row.id);
          }
          this.#flush();
        }),
    };
    return store as RelayStore;
  }
}
