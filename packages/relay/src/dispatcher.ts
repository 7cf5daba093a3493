/**
 * Publishes rows and follows each to its end: confirmed, or parked in the timers. A row whose outcome
 * is unknown (a lost connection, no confirm in time) is published again, as often as it takes: no
 * outage of the broker ever exhausts or parks anything.
 */

import { cleanText, type KeyRing, type Logger, type TopologyNames } from "@waybill/core";
import type { OutboxRow, ParkedDispatch, RelayStore } from "@waybill/postgres";
import {
  type BrokerConnection,
  createPublisher,
  type OutgoingMessage,
  type Publisher,
  type PublishOutcome,
} from "@waybill/rabbitmq";
import type { Destinations } from "./destinations.ts";
import type { RelayFailpointHook } from "./internals.ts";
import { messageOf, type Outbound, SendQueue } from "./outbound.ts";
import { type LedgerPage, PageLedger } from "./page-ledger.ts";
import { isMissingExchange, parkedDispatch } from "./parking.ts";
import type { Cursor } from "./window-planner.ts";

/** Counts since the relay was created. */
export interface PublishCounts {
  /** Confirmed by the broker and not returned. */
  published: number;
  /** Published again because the outcome was not known. */
  republished: number;
  /** Copied into the timers because the broker did not take them. */
  parked: number;
}

/** Options of {@link Dispatcher}. */
export interface DispatcherOptions {
  readonly connection: BrokerConnection;
  readonly destinations: Destinations;
  readonly names: TopologyNames;
  readonly signing: KeyRing | undefined;
  readonly confirmTimeoutMs: number;
  readonly epoch: string;
  /** The database that is published from, in its present life. */
  readonly origin: string | undefined;
  readonly store: RelayStore;
  readonly logger: Logger;
  readonly random: () => number;
  readonly failpoint: RelayFailpointHook;
  readonly counts: PublishCounts;
  /** Called when everything up to a cursor is settled. */
  readonly onSettled: (cursor: Cursor, hadRows: boolean) => void;
  /** Called when a row cannot be parked, or followed to its end. */
  readonly onFailed: (error: unknown) => void;
  /** Called with jobs of slots that the broker did not take, when they are parked. */
  readonly onParked: (rows: readonly OutboxRow[]) => void;
}

type Refusal = PublishOutcome & { readonly status: "returned" | "nacked" | "refused" };

const parkBatch = 200;
const messagesMax = 2_000;

/** See the head of the file. */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #publisher: Publisher<Outbound>;
  readonly #ledger = new PageLedger();
  readonly #queue = new SendQueue();
  readonly #oldest = new Map<LedgerPage, Date>();
  /** Rows of pages that the governor has. */
  #governed = 0;
  #ordinal = 0;
  #closed = false;
  #roomAwaited = false;
  /** Whether a row was settled since the cursor moved last. */
  #rowsSince = false;
  #refused: { readonly outbound: Outbound; readonly parked: ParkedDispatch }[] = [];
  #parking: Promise<void> | undefined;
  #change = Promise.withResolvers<void>();

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#publisher = createPublisher<Outbound>({
      connection: options.connection,
      logger: options.logger,
      confirmTimeoutMs: options.confirmTimeoutMs,
      windowMessages: messagesMax,
      onSettled: (message, outcome) => this.#settled(message, outcome),
    });
  }

  /** Rows neither confirmed nor parked yet. */
  get unsettled(): number {
    return this.#governed + this.#queue.size + this.#publisher.outstanding + this.#refused.length;
  }

  /** True while another page may be read: at most three are in memory, and few rows wait to go. */
  get hasRoom(): boolean {
    return this.#ledger.size < 3 && this.#queue.size === 0 && this.unsettled < messagesMax;
  }

  /** When the oldest row on its way was written. */
  get oldestAt(): Date | undefined {
    return this.#oldest.values().next().value;
  }

  /** Resolves at the next change of {@link hasRoom} or {@link unsettled}. */
  changed(): Promise<void> {
    return this.#change.promise;
  }

  /**
   * Takes a page: its rows in this order, and the cursor once they are settled.
   *
   * @param governed rows of the page that are the governor's; it settles them
   */
  add(rows: readonly OutboxRow[], cursor: Cursor, governed = 0): LedgerPage {
    const page = this.#ledger.add(cursor, rows.length + governed);
    this.#governed += governed;
    const [first] = rows;
    if (first !== undefined) this.#oldest.set(page, first.created_at);
    this.#queue.add(rows.map((row) => ({ row, page, ordinal: this.#ordinal++ })));
    this.#advance();
    if (rows.length > 0) this.#options.failpoint("relay.beforePublish");
    this.pump();
    if (rows.length > 0) this.#options.failpoint("relay.afterPublish");
    return page;
  }

  /** Publishes jobs whose slots are in the database. */
  addSlotted(rows: readonly OutboxRow[], slot: string): void {
    this.#queue.add(rows.map((row) => ({ row, page: undefined, slot, ordinal: this.#ordinal++ })));
    this.pump();
  }

  /** A row of a page is in the backlog or has a slot. */
  settleGoverned(pages: readonly LedgerPage[]): void {
    this.#governed -= pages.length;
    this.#settle(pages);
  }

  /** Publishes as much as there is room for. */
  pump(): void {
    const { destinations, names, signing, origin } = this.#options;
    while (!this.#closed && destinations.ready && this.#queue.size > 0) {
      const room = this.#publisher.capacity();
      if (room !== undefined) {
        this.#awaitRoom(room);
        return;
      }
      const outbound = this.#queue.take();
      if (outbound !== undefined) {
        this.#publisher.publish(messageOf(outbound, names, { signing, origin }));
      }
    }
    this.#changed();
  }

  #awaitRoom(room: Promise<void>): void {
    if (this.#roomAwaited) return;
    this.#roomAwaited = true;
    void room.then(() => {
      this.#roomAwaited = false;
      this.pump();
    });
  }

  #settled({ key: outbound }: OutgoingMessage<Outbound>, outcome: PublishOutcome): void {
    // What is on its way at the end is read again by the next term.
    if (this.#closed) return;
    try {
      this.#follow(outbound, outcome);
    } catch (error) {
      // Its page would never be settled, and the position would stay before it for as long as the term.
      this.#options.onFailed(error);
    }
  }

  #follow(outbound: Outbound, outcome: PublishOutcome): void {
    const { counts, failpoint } = this.#options;
    switch (outcome.status) {
      case "confirmed":
        counts.published += 1;
        failpoint("relay.afterConfirm");
        this.#settle([outbound.page]);
        return;
      case "unknown":
        counts.republished += 1;
        this.#queue.again(outbound);
        // Not at once: the publisher is in the middle of telling all the outcomes.
        queueMicrotask(() => this.pump());
        return;
      default:
        this.#refuse(outbound, { status: outcome.status, reason: outcome.reason });
    }
  }

  #settle(pages: readonly (LedgerPage | undefined)[]): void {
    this.#rowsSince = true;
    for (const page of pages) {
      if (page === undefined) continue;
      this.#ledger.settle(page);
      if (page.unsettled === 0) this.#oldest.delete(page);
    }
    this.#advance();
    this.#changed();
  }

  #advance(): void {
    const before = this.#ledger.size;
    const cursor = this.#ledger.take();
    if (cursor === undefined) return;
    // Only an empty window that was read while nothing was on its way leaves nothing to remember.
    const hadRows = before > 1 || cursor.window !== null || this.#rowsSince;
    this.#rowsSince = false;
    this.#options.onSettled(cursor, hadRows);
  }

  #refuse(outbound: Outbound, outcome: Refusal): void {
    const { random, destinations } = this.#options;
    const parked = parkedDispatch(outbound.row, outcome, random);
    this.#refused.push({
      outbound,
      parked: { ...parked, detail: cleanText(parked.detail, 1_000) },
    });
    if (isMissingExchange(outcome.reason) && outbound.row.kind !== "route") destinations.doubt();
    this.#parking ??= this.#parkAll()
      .catch((error: unknown) => this.#options.onFailed(error))
      .finally(() => {
        this.#parking = undefined;
      });
  }

  async #parkAll(): Promise<void> {
    const { destinations, store, epoch, counts, logger, failpoint, onParked } = this.#options;
    // Outcomes come in bursts.
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#refused.length > 0 && !this.#closed) {
      const batch = this.#refused.slice(0, parkBatch);
      const returned = batch.flatMap(({ outbound, parked }) =>
        parked.reason === "unroutable" && outbound.row.queue !== null ? [outbound.row.queue] : [],
      );
      destinations.repair(returned);
      await store.park(
        epoch,
        batch.map(({ parked }) => parked),
      );
      failpoint("relay.afterPark");
      this.#refused.splice(0, batch.length);
      counts.parked += batch.length;
      const [first] = batch;
      logger.warn(
        {
          messages: batch.length,
          jobId: first?.outbound.row.id,
          queue: first?.outbound.row.queue,
          reason: first?.parked.reason,
          detail: first?.parked.detail,
        },
        "messages parked",
      );
      this.#settle(batch.map(({ outbound }) => outbound.page));
      const slotted = batch.filter(({ outbound }) => outbound.slot !== undefined);
      if (slotted.length > 0) onParked(slotted.map(({ outbound }) => outbound.row));
    }
  }

  #changed(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers<void>();
  }

  /** Waits until everything that was taken is settled, at most so long. */
  async drain(limitMs: number): Promise<void> {
    const until = performance.now() + limitMs;
    const { connection } = this.#options;
    while (this.unsettled > 0 && connection.state === "ready" && performance.now() < until) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, Math.max(1, Math.min(100, until - performance.now())));
      await Promise.race([this.changed(), promise]);
      clearTimeout(timer);
    }
  }

  /** Publishes nothing more and forgets what is on its way: it is read again. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#publisher.close(0);
    await this.#parking;
  }
}
