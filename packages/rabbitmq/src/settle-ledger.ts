/**
 * Which deliveries of one channel are settled, and the fewest frames that say so.
 *
 * An ack with `multiple` settles everything up to its tag, so it is sent only for the contiguous
 * prefix of settled tags: with 1 to 19 running, the ack of 20 goes out alone. Rejections go out
 * singly and before the acks that would cover their tags.
 */

/** How a delivery is settled. */
export type Settlement = "ack" | "requeue" | "deadLetter";

/** One frame to send. */
export type SettleFrame =
  | { readonly kind: "ack"; readonly tag: number; readonly multiple: boolean }
  | { readonly kind: "nack"; readonly tag: number; readonly requeue: boolean };

/** See the head of the file. Pure: it sends nothing itself. */
export class SettleLedger {
  /** Delivered, not settled. */
  readonly #open = new Set<number>();
  /** Acked, not sent. */
  readonly #acks = new Set<number>();
  /** Rejected, not sent. */
  readonly #nacks = new Map<number, boolean>();
  /** Settled at the broker beyond the prefix. */
  readonly #sent = new Set<number>();
  /** Every lower tag is settled at the broker. Tags of a channel start at 1. */
  #base = 1;

  /** Deliveries that have not been settled. */
  get unsettled(): number {
    return this.#open.size;
  }

  /** Notes a delivery. */
  delivered(tag: number): void {
    this.#open.add(tag);
  }

  /** Settles a delivery; false if it was settled before. */
  settle(tag: number, settlement: Settlement): boolean {
    if (!this.#open.delete(tag)) return false;
    if (settlement === "ack") this.#acks.add(tag);
    else this.#nacks.set(tag, settlement === "requeue");
    return true;
  }

  /** The frames for everything settled since the last flush, in the order to send them. */
  flush(): readonly SettleFrame[] {
    const frames: SettleFrame[] = [];
    for (const [tag, requeue] of this.#nacks) {
      frames.push({ kind: "nack", tag, requeue });
      this.#sent.add(tag);
    }
    this.#nacks.clear();

    let last = 0;
    let count = 0;
    for (;;) {
      const tag = this.#base;
      if (this.#acks.delete(tag)) {
        last = tag;
        count += 1;
      } else if (!this.#sent.delete(tag)) {
        break;
      }
      this.#base += 1;
    }
    // `multiple` must cover at least one unsettled tag, and its own tag must be one.
    if (count > 0) frames.push({ kind: "ack", tag: last, multiple: count > 1 });

    for (const tag of this.#acks) {
      frames.push({ kind: "ack", tag, multiple: false });
      this.#sent.add(tag);
    }
    this.#acks.clear();
    return frames;
  }
}
