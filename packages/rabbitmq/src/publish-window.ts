/**
 * The messages written and not yet confirmed, by the channel's sequence number. Acks may be single
 * or multiple and out of order; a return names its message and comes before its ack.
 */

import type { PreparedMessage } from "./outgoing-message.ts";

/** One message on its way. */
export interface InFlight<Key = unknown> {
  readonly prepared: PreparedMessage<Key>;
  readonly sentAtMs: number;
  /** Set once the broker has returned it; its ack then does not count. */
  returned: string | undefined;
}

/** What identifies a returned message. */
export interface ReturnedMessage {
  readonly messageId: unknown;
  readonly exchange: string;
  readonly routingKey: string;
}

/** See the head of the file. Sequence numbers start at 1, as on a new confirm channel. */
export class PublishWindow<Key = unknown> {
  readonly #entries = new Map<number, InFlight<Key>>();
  #next = 1;
  /** No entry has a lower number. */
  #lowest = 1;
  #bytes = 0;

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a message that was written just now, under the next number. */
  add(prepared: PreparedMessage<Key>, sentAtMs: number): void {
    this.#entries.set(this.#next, { prepared, sentAtMs, returned: undefined });
    this.#next += 1;
    this.#bytes += prepared.bytes;
  }

  #take(sequence: number): InFlight<Key> | undefined {
    const entry = this.#entries.get(sequence);
    if (entry === undefined) return undefined;
    this.#entries.delete(sequence);
    this.#bytes -= entry.prepared.bytes;
    return entry;
  }

  /** Removes what one confirm settles, in order; numbers settled before are passed over. */
  settle(sequence: number, multiple: boolean): readonly InFlight<Key>[] {
    const settled: InFlight<Key>[] = [];
    for (let each = multiple ? this.#lowest : sequence; each <= sequence; each += 1) {
      const entry = this.#take(each);
      if (entry !== undefined) settled.push(entry);
    }
    if (multiple) this.#lowest = Math.max(this.#lowest, sequence + 1);
    this.#advance();
    return settled;
  }

  #advance(): void {
    while (this.#lowest < this.#next && !this.#entries.has(this.#lowest)) this.#lowest += 1;
  }

  /**
   * Marks the first message with this identity that was not returned yet. The same messageId may
   * be on its way twice (a job and its dead-letter copy), so the address counts too.
   */
  markReturned(returned: ReturnedMessage, reason: string): boolean {
    for (let each = this.#lowest; each < this.#next; each += 1) {
      const entry = this.#entries.get(each);
      if (entry === undefined || entry.returned !== undefined) continue;
      const { message } = entry.prepared;
      if (
        message.properties.messageId === returned.messageId &&
        message.exchange === returned.exchange &&
        message.routingKey === returned.routingKey
      ) {
        entry.returned = reason;
        return true;
      }
    }
    return false;
  }

  /** When the oldest message was written; undefined if there is none. */
  oldestSentAtMs(): number | undefined {
    return this.#entries.get(this.#lowest)?.sentAtMs;
  }

  /** Removes everything, oldest first, and starts again at number 1. */
  reset(): readonly InFlight<Key>[] {
    const all = [...this.#entries.values()];
    this.#entries.clear();
    this.#next = 1;
    this.#lowest = 1;
    this.#bytes = 0;
    return all;
  }
}
