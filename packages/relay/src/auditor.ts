/**
 * The auditor: proves, stretch by stretch of the outbox, that every published job has been claimed or waits
 * where something brings it forward, and dispatches again what the broker has lost. The reasons are told in
 * docs/decisions/0014-auditor.md.
 *
 * Nothing asks the broker for a message: what is lost is inferred from the order in which a queue hands out.
 * A job counts as lost if it was published before a mark, and after the mark its queue was seen empty, or
 * handed out something published later; twice, ten seconds apart, which is longer than a worker keeps a
 * delivery that it cannot start. A wrong guess costs a copy, which the inbox recognises.
 */

import { type Logger, newJobId } from "@waybill/core";
import type { AuditBooks, AuditPlace, AuditStore } from "@waybill/postgres";
import {
  type BrokerConnection,
  type BrokerNames,
  declareMarker,
  exchangeExists,
  isQueueEmpty,
  type TopologyMode,
} from "@waybill/rabbitmq";
import type { RelayFailpointHook } from "./internals.ts";

/** Options of {@link Auditor}. */
export interface AuditorOptions {
  readonly store: AuditStore;
  readonly epoch: string;
  readonly connection: BrokerConnection;
  readonly names: BrokerNames;
  /** A marker is declared in mode `assert` only. */
  readonly topology: TopologyMode;
  readonly logger: Logger;
  readonly failpoint: RelayFailpointHook;
  /** Milliseconds between the two looks that prove a loss. @default 10000 */
  readonly settleMs?: number | undefined;
  /** Called when jobs are due in the timers. */
  readonly onDispatched: () => void;
}

const lookEveryMs = 1_000;
/** Milliseconds between two passes while the budget is not enough. */
const busyMs = 50;
const settleDefaultMs = 10_000;
/** Rows of the outbox in one page, and pages in one pass: the budget. */
const pageRows = 2_000;
const pagesMax = 20;

/** What speaks for it that everything published before a mark has left its queue. */
interface Doubt {
  readonly mark: string;
  /** When the mark was made, by the database's clock. */
  readonly markedAtMs: number;
  /** The first look that said so, and what was published by then. */
  first?: { readonly atMs: number; readonly later: string };
  proven: boolean;
}

/** An {@link AuditPlace} that moves. */
interface Place extends AuditPlace {
  since: string;
  until: string | null;
  tx: string;
  seq: string;
  cleared: boolean;
  changed: boolean;
}

const start = { tx: "0", seq: "-1" };

/** See the head of the file. */
export class Auditor {
  readonly #options: AuditorOptions;
  readonly #doubts = new Map<string, Doubt>();
  /** Queues that were looked at in this pass, and whether they were empty. */
  readonly #empty = new Map<string, boolean>();
  #generation = 0;
  #isRefused = false;
  #pages = 0;

  constructor(options: AuditorOptions) {
    this.#options = options;
  }

  /** One pass, within the budget; resolves to the milliseconds until the next. */
  async pass(): Promise<number> {
    const { store, epoch, connection } = this.#options;
    // Across an outage an empty queue proves nothing.
    if (connection.state !== "ready" || connection.generation !== this.#generation) {
      this.#doubts.clear();
      this.#generation = connection.generation;
    }
    if (connection.state !== "ready") return lookEveryMs;
    const books = await this.#marked(await store.read(epoch));
    if (books === undefined || books.snapshot === null) return lookEveryMs;
    this.#empty.clear();
    this.#pages = 0;
    const places = books.places.map((place) => ({ ...place, cleared: false, changed: false }));
    await this.#auditSlots(books, places);
    const open = places.filter((place) => this.#open(place, books));
    try {
      for (const group of Map.groupBy(open, keyOf).values()) await this.#auditGroup(group, books);
    } finally {
      const changed = places.filter((place) => place.changed);
      if (changed.length > 0) await store.save(epoch, changed);
    }
    return this.#pages >= pagesMax ? busyMs : lookEveryMs;
  }

  /** Looks for the marker. Where it is gone, so is everything that the broker had. */
  async #marked(books: AuditBooks | undefined): Promise<AuditBooks | undefined> {
    const { store, epoch, connection, names, topology, logger, failpoint } = this.#options;
    if (books === undefined || topology !== "assert" || this.#isRefused) return books;
    if (books.marker !== null) {
      if ((await exchangeExists(connection, books.marker)) !== false) return books;
      const why = `the broker was wiped, or its virtual host: exchange ${books.marker} is gone`;
      logger.error({ marker: books.marker }, "the broker has lost what it had, dispatching again");
      await store.takeForLost(epoch, why);
      failpoint("relay.afterTakenForLost");
    }
    const marker = names.markerExchange(newJobId());
    if (await declareMarker(connection, marker)) await store.setMarker(epoch, marker);
    else {
      this.#isRefused = true;
      logger.warn({ exchange: marker }, "no marker at the broker: this user may not declare it");
    }
    return await store.read(epoch);
  }

  /** Begins the next stretch where none is open; false where there is nothing to look at. */
  #open(place: Place, { snapshot }: AuditBooks): boolean {
    if (place.until !== null || snapshot === null) return snapshot !== null;
    const until = place.lost ?? snapshot;
    if (until === place.since) {
      if (place.lost !== null) this.#close(place);
      return false;
    }
    Object.assign(place, { until, ...start, changed: true });
    return true;
  }

  /** Audits queues whose stretches are at the same place, until each is through or has to wait. */
  async #auditGroup(group: readonly Place[], books: AuditBooks): Promise<void> {
    const { store } = this.#options;
    let going = group;
    const [single] = group.length === 1 ? group : [];
    // What had to wait before is looked at alone first: it mostly has to wait again.
    let rowsMax = single !== undefined && this.#doubts.has(single.queue) ? 1 : pageRows;
    while (going.length > 0 && this.#pages < pagesMax) {
      const [first] = going;
      if (first === undefined || first.until === null) return;
      this.#pages += 1;
      const page = await store.unclaimed(
        going.map(({ queue }) => queue),
        { since: first.since, until: first.until, tx: first.tx, seq: first.seq },
        rowsMax,
      );
      going = await this.#judge(
        going,
        Map.groupBy(page.jobs, ({ queue }) => queue),
        books,
      );
      for (const place of going) {
        if (page.scanned < rowsMax) this.#close(place);
        else Object.assign(place, { tx: page.tx, seq: page.seq, changed: true });
      }
      if (page.scanned < rowsMax) return;
      rowsMax = pageRows;
    }
  }

  /** Dispatches again what is proven lost; the places that may move on. */
  async #judge(
    group: readonly Place[],
    unclaimed: ReadonlyMap<
      string,
      readonly { id: string; queue: string; tx: string; seq: string }[]
    >,
    books: AuditBooks,
  ): Promise<readonly Place[]> {
    const going: Place[] = [];
    for (const place of group) {
      const jobs = unclaimed.get(place.queue) ?? [];
      const [head] = jobs;
      if (head !== undefined && place.until !== null) {
        if (!(await this.#areLost(place.queue, place, place.until, books))) {
          const seq = String(BigInt(head.seq) - 1n);
          if (place.tx !== head.tx || place.seq !== seq)
            Object.assign(place, { tx: head.tx, seq, changed: true });
          continue;
        }
        await this.#dispatch(place, jobs);
      }
      going.push(place);
    }
    return going;
  }

  #close(place: Place): void {
    this.#doubts.delete(place.queue);
    const isCleared = place.lost !== null && (place.until ?? place.since) === place.lost;
    Object.assign(place, {
      since: place.until ?? place.since,
      until: null,
      ...start,
      cleared: isCleared,
      changed: true,
    });
  }

  /** Slots are few, and say themselves when they were dispatched. */
  async #auditSlots(books: AuditBooks, places: readonly Place[]): Promise<void> {
    const { store, settleMs = settleDefaultMs } = this.#options;
    const wasTaken = places.some(({ lost }) => lost !== null);
    const slots = await store.idleSlots(wasTaken ? 0 : settleMs);
    const idle = Map.groupBy(slots, ({ queue }) => queue);
    for (const place of places) {
      const { queue, lostAtMs } = place;
      const key = `${queue} slots`;
      const jobs = idle.get(queue) ?? [];
      const taken = jobs.filter(({ dispatchedAtMs }) => dispatchedAtMs <= (lostAtMs ?? 0));
      if (taken.length > 0) await this.#dispatch(place, taken);
      const others = jobs.filter((job) => !taken.includes(job));
      if (others.length === 0) {
        this.#doubts.delete(key);
        continue;
      }
      const mark = this.#doubts.get(key)?.mark ?? books.snapshot ?? "";
      if (!(await this.#areLost(key, { queue, lost: null }, mark, books))) continue;
      const markedAtMs = this.#doubts.get(key)?.markedAtMs ?? 0;
      this.#doubts.delete(key);
      const lost = others.filter(({ dispatchedAtMs }) => dispatchedAtMs <= markedAtMs);
      if (lost.length > 0) await this.#dispatch(place, lost);
    }
  }

  /** Whether everything published before the mark, and not claimed, is lost. */
  async #areLost(
    key: string,
    { queue, lost }: Pick<AuditPlace, "queue" | "lost">,
    mark: string,
    books: AuditBooks,
  ): Promise<boolean> {
    if (lost !== null) return true;
    const { settleMs = settleDefaultMs } = this.#options;
    let doubt = this.#doubts.get(key);
    if (doubt?.mark !== mark) {
      doubt = { mark, markedAtMs: books.nowMs, proven: false };
      this.#doubts.set(key, doubt);
    }
    if (doubt.proven) return true;
    const nowMs = performance.now();
    if (doubt.first === undefined) {
      if (await this.#hasPassed(queue, mark))
        doubt.first = { atMs: nowMs, later: books.snapshot ?? mark };
      return false;
    }
    if (nowMs - doubt.first.atMs < settleMs) return false;
    doubt.proven = await this.#hasPassed(queue, doubt.first.later);
    return doubt.proven;
  }

  /** Whether the queue has handed out all that was published before the snapshot. */
  async #hasPassed(queue: string, snapshot: string): Promise<boolean> {
    const { connection, names, store } = this.#options;
    let isEmpty = this.#empty.get(queue);
    if (isEmpty === undefined) {
      isEmpty = (await isQueueEmpty(connection, names.queueName(queue))) === true;
      this.#empty.set(queue, isEmpty);
    }
    return isEmpty || (await store.isOvertaken(queue, snapshot));
  }

  async #dispatch(
    { queue, lostWhy }: AuditPlace,
    jobs: readonly { readonly id: string; readonly queue: string }[],
  ): Promise<void> {
    const { store, epoch, logger, failpoint, onDispatched } = this.#options;
    const why = lostWhy ?? "the queue has handed out what came later, or is empty";
    for (let from = 0; from < jobs.length; from += pageRows) {
      const some = jobs.slice(from, from + pageRows);
      const [dispatched] = await store.dispatchLost(epoch, some, why);
      failpoint("relay.afterLostDispatched");
      if (dispatched === undefined) continue;
      logger.warn({ queue, jobs: dispatched.jobs, why }, "lost jobs dispatched again");
      onDispatched();
    }
  }
}

/** Queues that are at the same place are looked at together. */
const keyOf = ({ since, until, tx, seq }: Place): string => `${since} ${until} ${tx} ${seq}`;
