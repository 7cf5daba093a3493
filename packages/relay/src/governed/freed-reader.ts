import type { FreedRow, GovernorStore } from "@waybill/postgres";

/** Milliseconds between two looks while jobs end. */
const busyMs = 2;
/** The same while slots are out and nothing ends, and while none is out. */
const slowMs = 40;
const idleMs = 250;
/** Rows that a look goes back: a number may be taken early and committed late. */
const behind = 1_000n;
/** Milliseconds between two looks at all rows. */
const sweepMs = 1_000;

/** Reads the news of freed slots, from a lower bound on, so that deleted rows cost nothing. */
export class FreedReader {
  readonly #store: Pick<GovernorStore, "freed">;
  readonly #epoch: string;
  #highest = 0n;
  #atMs = 0;
  #sweptAtMs = 0;
  #delayMs = busyMs;

  constructor(store: Pick<GovernorStore, "freed">, epoch: string) {
    this.#store = store;
    this.#epoch = epoch;
  }

  /** When to look again. */
  dueAtMs(hasSlots: boolean): number {
    return this.#atMs + (hasSlots ? this.#delayMs : idleMs);
  }

  /** Makes it due at once. */
  hurry(): void {
    this.#atMs = -Infinity;
  }

  async read(): Promise<readonly FreedRow[]> {
    const nowMs = performance.now();
    const all = nowMs - this.#sweptAtMs > sweepMs;
    if (all) this.#sweptAtMs = nowMs;
    const after = all || this.#highest < behind ? 0n : this.#highest - behind;
    const rows = await this.#store.freed(this.#epoch, String(after));
    for (const { n } of rows) if (BigInt(n) > this.#highest) this.#highest = BigInt(n);
    this.#delayMs = rows.length > 0 ? busyMs : Math.min(slowMs, this.#delayMs * 1.5);
    this.#atMs = performance.now();
    return rows;
  }
}
