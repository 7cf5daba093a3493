import type { Cursor } from "./window-planner.ts";

/** A page on its way to the broker. */
export interface LedgerPage {
  /** The cursor once this page, and all before it, are settled. */
  readonly cursor: Cursor;
  /** Rows without a final outcome: neither confirmed nor parked. */
  unsettled: number;
}

/**
 * The pages on their way, oldest first. The cursor moves to the end of a page only when that page and
 * every earlier one are settled, in whatever order the broker confirms.
 */
export class PageLedger {
  readonly #pages: LedgerPage[] = [];

  /** Pages with unsettled rows, or behind one that has. */
  get size(): number {
    return this.#pages.length;
  }

  /** Adds a page behind the others. */
  add(cursor: Cursor, rows: number): LedgerPage {
    const page: LedgerPage = { cursor, unsettled: rows };
    this.#pages.push(page);
    return page;
  }

  /** Settles rows of a page. */
  settle(page: LedgerPage, rows = 1): void {
    page.unsettled -= rows;
    if (page.unsettled < 0) throw new RangeError("a row was settled twice");
  }

  /** Takes off the settled pages at the front: the cursor that may be saved now, if it has moved. */
  take(): Cursor | undefined {
    let cursor: Cursor | undefined;
    while (this.#pages[0]?.unsettled === 0) cursor = this.#pages.shift()?.cursor;
    return cursor;
  }
}
