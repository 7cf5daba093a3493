/**
 * Gathers single requests for a moment and sends them as one statement. Survives an outage: a batch
 * that got no answer is sent again, so what `flush` does must be the same when done twice.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { DatabaseGate } from "./database-gate.ts";
import { databaseErrorKind } from "./own-database.ts";

/** Options of {@link Batcher}. */
export interface BatcherOptions<Item, Result> {
  /** Does the work of all items; the answers are in the items' order. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Milliseconds that a first item waits for company. */
  readonly delayMs: number;
  readonly batchMax: number;
  readonly gate: DatabaseGate;
  readonly random: () => number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Tries of a statement that loses races before its batch is taken apart. */
const raceTries = 5;
/** Milliseconds until a single item that lost every race is tried again. */
const laterMs = 500;

/** See the head of the file. */
export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  #waiting: Waiting<Item, Result>[] = [];
  #busy = false;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /**
   * Adds one item; resolves with its answer.
   *
   * @throws the database's error if it will never accept the item, or the stop signal's reason
   */
  add(item: Item): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.#waiting.push({ item, resolve, reject });
    this.#start(this.#options.delayMs);
    return promise;
  }

  #start(delayMs: number): void {
    if (this.#busy) return;
    this.#busy = true;
    setTimeout(() => void this.#run(), delayMs);
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#send(this.#waiting.splice(0, this.#options.batchMax));
    }
    this.#busy = false;
  }

  async #send(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    const { flush, gate, random } = this.#options;
    for (let races = 0; ;) {
      try {
        await gate.whenOpen();
        const results = await flush(batch.map(({ item }) => item));
        for (const [index, waiting] of batch.entries()) {
          waiting.resolve(results[index] as Result);
        }
        return;
      } catch (error) {
        // The worker has stopped.
        if (error === gate.stopReason) return this.#reject(batch, error);
        const kind = databaseErrorKind(error);
        if (kind === "down") {
          gate.close(error);
        } else if (kind === "retry" && races < raceTries) {
          races += 1;
          await delay(5 + random() * 50);
        } else if (batch.length > 1) {
          // One bad item must not take its neighbours along.
          return await this.#sendEach(batch);
        } else if (kind === "data") {
          return this.#reject(batch, error);
        } else {
          // Its row is locked by somebody who may be frozen; the others do not wait for that.
          return this.#later(batch);
        }
      }
    }
  }

  async #sendEach(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    for (const waiting of batch) await this.#send([waiting]);
  }

  #later(batch: readonly Waiting<Item, Result>[]): void {
    setTimeout(() => {
      this.#waiting.push(...batch);
      this.#start(0);
    }, laterMs);
  }

  #reject(batch: readonly Waiting<Item, Result>[], error: unknown): void {
    for (const waiting of batch) waiting.reject(error);
  }
}
