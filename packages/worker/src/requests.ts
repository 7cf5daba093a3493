/**
 * What others ask of this worker, read in one small statement a round: jobs to cancel, jobs that others
 * have taken over, a request to stop, and whether anybody watches jobs. Polled and not listened for: it works through every pooler,
 * and a round costs a few index lookups.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@waybill/core";
import type {
  CancelRequest,
  InboxStore,
  JobRef,
  OwnedJob,
  WorkerRequests,
} from "@waybill/postgres";

/** Milliseconds between two rounds. A cancel reaches its job within a second. */
export const requestsMs = 400;

/** Options of {@link Requests}. */
export interface RequestsOptions {
  readonly store: Pick<InboxStore, "requests">;
  readonly logger: Logger;
  /** Undefined while this worker has no presence. */
  readonly bootId: () => string | undefined;
  /** Jobs that have been running for longer than a round; quicker ones end by themselves. */
  readonly running: () => readonly OwnedJob[];
  readonly onCancel: (request: CancelRequest) => void;
  /** Another attempt owns this job now. */
  readonly onLost: (job: JobRef) => void;
  readonly onStop: (stop: "drain" | "restart", stopper: string | null) => void;
  readonly onWatched: (watched: boolean) => void;
}

/** See the head of the file. */
export class Requests {
  readonly #options: RequestsOptions;
  readonly #stop = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(options: RequestsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Asks no more. Never rejects. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.#round();
      await delay(requestsMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #round(): Promise<void> {
    const { store, logger, bootId, running } = this.#options;
    const me = bootId();
    if (me === undefined) return;
    let requests: WorkerRequests;
    try {
      requests = await store.requests(me, running());
    } catch (err) {
      // The next round asks again; whether the database is down is the gate's to say.
      logger.debug({ err }, "requests could not be read");
      return;
    }
    const { stop, stopper, watched, cancels, lost } = requests;
    this.#options.onWatched(watched);
    for (const cancel of cancels) this.#options.onCancel(cancel);
    for (const job of lost) this.#options.onLost(job);
    if (stop !== null) this.#options.onStop(stop, stopper);
  }
}
