/**
 * A relay of the whole world, one act at a time: what to read, in which order to publish and when the
 * cursor may move are the product's own (window-planner.ts, page-ledger.ts, outbound.ts, parking.ts).
 * How its loops wait and what a real publisher does with a channel is in relay-world.ts.
 */

import type { OutboxRow } from "@waybill/postgres";
import { type Outbound, SendQueue } from "../../packages/relay/src/outbound.ts";
import { PageLedger } from "../../packages/relay/src/page-ledger.ts";
import { parkedDispatch } from "../../packages/relay/src/parking.ts";
import { advance, type Cursor, nextRead } from "../../packages/relay/src/window-planner.ts";
import type { Dispatched } from "./model-jobs.ts";
import type { Limits, ModelOutbox, ModelRow, Written } from "./model-outbox.ts";

/** A row of the outbox. */
export type JobRow = ModelRow & Dispatched;

/** What the broker makes of a publish, and what the relay hears of it. */
export type PublishFate = "confirm" | "keep" | "drop" | "nacked" | "returned" | "refused";

/** What a relay does to the world. */
export interface RelayPorts {
  readonly outbox: ModelOutbox<JobRow>;
  /** False: another relay has the term. */
  readonly save: (epoch: number, cursor: Cursor) => boolean;
  readonly park: (
    epoch: number,
    row: Written<JobRow>,
    reason: "unroutable" | "nacked" | "refused",
    delayMs: number | null,
  ) => void;
  readonly onPublish: (row: Written<JobRow>) => void;
  /** A message is in its queue. */
  readonly store: (row: Written<JobRow>) => void;
}

type Flying = Outbound & { readonly row: OutboxRow & Written<JobRow> };

/** See the head of the file. */
export class WorldRelay {
  readonly epoch: number;
  readonly #ports: RelayPorts;
  readonly #limits: Limits;
  readonly #ledger = new PageLedger();
  readonly #queue = new SendQueue();
  #cursor: Cursor;
  #settled: Cursor | undefined;
  #flying: Flying[] = [];
  #ordinal = 0;
  isOver = false;

  constructor(epoch: number, cursor: Cursor, limits: Limits, ports: RelayPorts) {
    this.epoch = epoch;
    this.#cursor = cursor;
    this.#limits = limits;
    this.#ports = ports;
  }

  /** Reads the next page, where there is room for one. */
  read(): void {
    if (this.#ledger.size >= 3 || this.#queue.size > 0) return;
    const read = nextRead(this.#cursor);
    const { rows, cursor } = advance(
      this.#cursor,
      read,
      this.#ports.outbox.read(read, this.#limits),
    );
    this.#cursor = cursor;
    const page = this.#ledger.add(cursor, rows.length);
    this.#queue.add(
      rows.map((row) => ({ row: asRelayRow(row), page, ordinal: (this.#ordinal += 1) })),
    );
    this.#advance();
  }

  publish(): void {
    const outbound = this.#queue.take() as Flying | undefined;
    if (outbound === undefined) return;
    this.#ports.onPublish(outbound.row);
    this.#flying.push(outbound);
  }

  /** One of the messages on their way meets its fate. */
  settle(pick: number, fate: PublishFate): void {
    const [outbound] = this.#flying.splice(pick % Math.max(1, this.#flying.length), 1);
    if (outbound === undefined) return;
    const { row, page } = outbound;
    switch (fate) {
      case "confirm":
      case "keep":
        this.#ports.store(row);
        break;
      case "drop":
        break;
      default: {
        // As the broker says it of an exchange or a queue that is away.
        const reason = fate === "refused" ? "NOT_FOUND - no exchange" : "no room";
        const parked = parkedDispatch(row, { status: fate, reason }, () => 0.5);
        this.#ports.park(this.epoch, row, parked.reason, parked.delayMs);
      }
    }
    if (fate === "keep" || fate === "drop") this.#queue.again(outbound);
    else if (page !== undefined) this.#ledger.settle(page);
    this.#advance();
  }

  #advance(): void {
    this.#settled = this.#ledger.take() ?? this.#settled;
  }

  save(): void {
    const cursor = this.#settled;
    this.#settled = undefined;
    if (cursor !== undefined && !this.#ports.save(this.epoch, cursor)) this.isOver = true;
  }

  /** A moment without faults. */
  serve(): void {
    this.read();
    while (this.#queue.size > 0) this.publish();
    while (this.#flying.length > 0) this.settle(0, "confirm");
    this.save();
  }
}

/** The relay looks at what it publishes; here only the kind and the failures matter to it. */
const asRelayRow = (row: Written<JobRow>): OutboxRow => row as unknown as OutboxRow;
