import { encodeEnvelope, type KeyRing, type TopologyNames } from "@waybill/core";
import type { OutboxRow } from "@waybill/postgres";
import type { OutgoingMessage } from "@waybill/rabbitmq";
import type { LedgerPage } from "./page-ledger.ts";
import { signedHeaders } from "./signing.ts";

/** A row on its way. */
export interface Outbound {
  readonly row: OutboxRow;
  /** The page that it settles; undefined of jobs that are dispatched from a slot. */
  readonly page: LedgerPage | undefined;
  /** Schema that the job's slot lies in, where it has one. */
  readonly slot?: string | undefined;
  /** Place in the order of publishing; rows that are published again keep theirs. */
  readonly ordinal: number;
}

/** What is added to each message. */
export interface MessageMarks {
  /** Keys to sign with. */
  readonly signing: KeyRing | undefined;
  /** The database that it is published from. */
  readonly origin: string | undefined;
}

/** The row as a message; its key leads back to the row. */
export function messageOf(
  outbound: Outbound,
  names: TopologyNames,
  { signing, origin }: MessageMarks,
): OutgoingMessage<Outbound> {
  const { row } = outbound;
  const envelope = encodeEnvelope(
    {
      id: row.id,
      kind: row.kind,
      dispatch: row.dispatch,
      queue: row.queue,
      type: row.type,
      version: row.version,
      exchange: row.exchange,
      routingKey: row.routing_key,
      payload: row.payload ?? "",
      payloadBase64: row.payload_base64,
      headers: row.headers,
      priority: row.priority,
      orderingKey: row.ordering_key,
      correlationId: row.correlation_id,
      expiresAt: row.expires_at,
      enqueuedAt: row.enqueued_at,
      slot: outbound.slot,
      origin,
    },
    names,
  );
  return {
    key: outbound,
    exchange: envelope.exchange,
    routingKey: envelope.routingKey,
    content: envelope.content,
    properties: {
      messageId: envelope.messageId,
      type: envelope.type,
      correlationId: envelope.correlationId,
      timestamp: envelope.timestampSeconds,
      appId: "waybill",
      contentType: envelope.contentType,
      priority: envelope.priority,
      headers: signing === undefined ? envelope.headers : signedHeaders(envelope, row, signing),
    },
  };
}

/** Rows waiting for room at the publisher, in the order of their ordinals. */
export class SendQueue {
  /** Rows to be published again: their outcome was never known. */
  #again: Outbound[] = [];
  #againIsSorted = true;
  #fresh: Outbound[] = [];
  #next = 0;

  get size(): number {
    return this.#again.length + this.#fresh.length - this.#next;
  }

  /** Adds rows behind all others. */
  add(rows: readonly Outbound[]): void {
    if (this.#next === this.#fresh.length) {
      this.#fresh = [];
      this.#next = 0;
    }
    this.#fresh.push(...rows);
  }

  /** Takes back a row that may not have been published. */
  again(row: Outbound): void {
    this.#again.push(row);
    this.#againIsSorted = false;
  }

  /** Takes the first row; what comes again is older than anything new. */
  take(): Outbound | undefined {
    if (this.#again.length > 0) {
      // Last is first, so that taking one is cheap.
      if (!this.#againIsSorted) this.#again.sort((a, b) => b.ordinal - a.ordinal);
      this.#againIsSorted = true;
      return this.#again.pop();
    }
    const row = this.#fresh[this.#next];
    if (row !== undefined) this.#next += 1;
    return row;
  }
}
