/**
 * How long a delivery is held. A job's message stays unacked until its outcome is in the database, so
 * that the broker gives it to somebody else if this process dies. But the broker gives up on consumers
 * that hold a delivery for too long, and closes their channel with all that it holds. So a job that
 * runs for long gets a lease in the database, a timer that fires when this worker dies, and its
 * delivery is acked.
 */

import type { Logger } from "@waybill/core";
import type { OwnedJob } from "@waybill/postgres";
import type { Incoming } from "./incoming.ts";
import type { Settlements } from "./settlements.ts";

/** Milliseconds until a lease is tried for again where the job's end was being written. */
const againMs = 1_000;

/** Options of {@link Holding}. */
export interface HoldingOptions {
  readonly incoming: Incoming;
  readonly owned: OwnedJob;
  /** Milliseconds that the delivery is held. */
  readonly holdMs: number;
  readonly settlements: Pick<Settlements, "hold">;
  /** The lease protects the job: no copy of it need be held any more. */
  readonly onLeased: () => void;
  /** The job is not this attempt's any more. */
  readonly onLost: () => void;
  readonly logger: Logger;
}

/** Holds one job's delivery; see the head of the file. */
export class Holding {
  readonly #options: HoldingOptions;
  #timer: NodeJS.Timeout | undefined;
  #leased = false;
  #leasing: Promise<void> | undefined;
  #ending = false;

  constructor(options: HoldingOptions) {
    this.#options = options;
    const { incoming, holdMs } = options;
    this.#arm(holdMs - (performance.now() - incoming.receivedAt));
  }

  /** True where the delivery is acked and the lease protects the job. */
  get leased(): boolean {
    return this.#leased;
  }

  /**
   * Begins to write the job's end: from here to {@link end} there is either a lease, of which the
   * writer knows, or none. Otherwise a lease could be made behind the back of the end that deletes it.
   */
  async begin(): Promise<OwnedJob> {
    this.#ending = true;
    await this.#leasing;
    return { ...this.#options.owned, leased: this.#leased };
  }

  /** The end has been written, or has not been accepted. */
  end(): void {
    this.#ending = false;
  }

  /** No lease is needed any more. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  ack(): void {
    if (!this.#leased) this.#options.incoming.delivery.ack();
  }

  /** Gives the delivery back; where there is none, the lease takes its place. */
  requeue(): void {
    if (!this.#leased) this.#options.incoming.delivery.requeue();
  }

  #arm(milliseconds: number): void {
    // Never keeps the process: what is not leased when it ends comes back from the broker.
    this.#timer = setTimeout(() => this.#due(), Math.max(0, milliseconds)).unref();
  }

  #due(): void {
    if (this.#ending) {
      this.#arm(againMs);
      return;
    }
    this.#leasing = this.#lease().finally(() => (this.#leasing = undefined));
  }

  async #lease(): Promise<void> {
    const { incoming, owned, settlements, logger, onLeased, onLost } = this.#options;
    const { id: jobId, queue } = owned;
    try {
      if (!(await settlements.hold({ ...owned, envelope: incoming.envelope }))) return onLost();
      this.#leased = true;
      incoming.delivery.ack();
      onLeased();
      logger.info({ jobId, queue }, "job goes on without its delivery");
    } catch (err) {
      // The delivery is still held, so nothing is lost; the broker may take it back.
      logger.warn({ err, jobId, queue }, "job got no lease, its delivery is held on");
    }
  }
}
