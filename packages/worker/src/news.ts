import type { Logger } from "@waybill/core";
import type { InboxStore } from "@waybill/postgres";

/** Milliseconds that a change waits for others. */
const gatherMs = 50;
/** Jobs told of in one statement. */
const batchMax = 1_000;

/**
 * Tells those who watch jobs that something has changed. Only a hint that makes them look at once:
 * one that is lost is found by their next look. Says nothing while nobody watches.
 */
export class News {
  readonly #store: Pick<InboxStore, "tell">;
  readonly #logger: Logger;
  #changed = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #telling: Promise<void> | undefined;
  /** True while somebody watches jobs. */
  watched = false;

  constructor(store: Pick<InboxStore, "tell">, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  changed(jobId: string): void {
    if (!this.watched) return;
    this.#changed.add(jobId);
    this.#later();
  }

  /** Tells what is still untold. Never rejects. */
  async flush(): Promise<void> {
    await this.#telling;
    await this.#tell();
  }

  /** One statement at a time: a database that hangs must not fill the pool with hints. */
  #later(): void {
    if (this.#telling !== undefined) return;
    this.#timer ??= setTimeout(() => void this.#tell(), gatherMs).unref();
  }

  #tell(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#telling ??= this.#send().finally(() => {
      this.#telling = undefined;
      if (this.#changed.size > 0) this.#later();
    });
    return this.#telling;
  }

  async #send(): Promise<void> {
    const ids = [...this.#changed];
    this.#changed = new Set();
    try {
      for (let from = 0; from < ids.length; from += batchMax) {
        await this.#store.tell(ids.slice(from, from + batchMax));
      }
    } catch (err) {
      this.#logger.debug({ err }, "watchers could not be told");
    }
  }
}
