/**
 * Decides what to read from the outbox next, in which order to publish it, and what the cursor is
 * once it is published. Pure: the same functions run against PostgreSQL and against the model
 * database of the tests.
 *
 * The cursor is the last snapshot that is fully published. A window is what is visible in a newer
 * snapshot and not in that one: rows of transactions that were in progress then ("late", known by
 * their xids), and rows of transactions that began after it ("fresh"). So nothing waits for a long
 * transaction and nothing is skipped, in whatever order transactions commit.
 *
 * A window of less than a page is published in seq order and closed. A larger one stays open and is
 * paged: first the rows without an ordering key by (tx, seq), late ones before fresh ones, then the
 * rows with one by seq, because that is the order in which the transactions of a key committed.
 * While it pages, it remembers between which seqs the keyed rows lie.
 */

import { beginning, isVisible, parseSnapshot } from "./snapshot.ts";

/** How far the outbox is published. Kept in memory ahead of what is saved, in the same form. */
export interface Cursor {
  /** Everything visible in it is published. Null: nothing yet. */
  readonly snapshot: string | null;
  /** Upper end of the window that is being paged; null: none is. */
  readonly window: string | null;
  /** Whether the keyed rows of the window are being read. */
  readonly keyed: boolean;
  /** Place (tx, seq) of the last row read in the window, or seq alone of the keyed ones. */
  readonly tx: string | null;
  readonly seq: string | null;
  /** Lowest and highest seq of keyed rows that were seen in the window; null: none so far. */
  readonly keyedFrom: string | null;
  readonly keyedTo: string | null;
}

/** What to read next. */
export type WindowRead =
  | { readonly kind: "window"; readonly after: string; readonly late: boolean }
  | {
      readonly kind: "late";
      readonly xids: readonly string[];
      readonly tx: string;
      readonly seq: string;
    }
  | { readonly kind: "fresh"; readonly until: string; readonly tx: string; readonly seq: string }
  | {
      readonly kind: "keyed";
      readonly after: string;
      readonly until: string;
      readonly seq: string;
      readonly to: string;
    };

/** The part of a row that decides. */
export interface PlannedRow {
  readonly tx: string;
  readonly seq: string;
  readonly ordering_key: string | null;
}

/** What a read brought. */
export interface WindowPage<Row extends PlannedRow> {
  /** Of a `window`: the snapshot it was read in. */
  readonly snapshot: string | null;
  readonly rows: readonly Row[];
  /** True if there may be more after these rows: a limit was reached. */
  readonly full: boolean;
  /** Of `keyed`: seq up to which everything was looked at. */
  readonly upto: string | null;
}

/** What follows from a page. */
export interface WindowStep<Row extends PlannedRow> {
  /** Rows to publish, in this order. */
  readonly rows: readonly Row[];
  /** The cursor once they, and all before them, are published. */
  readonly cursor: Cursor;
}

/** Nothing is published yet. */
export const firstCursor: Cursor = closedAt(null);

function closedAt(snapshot: string | null): Cursor {
  return {
    snapshot,
    window: null,
    keyed: false,
    tx: null,
    seq: null,
    keyedFrom: null,
    keyedTo: null,
  };
}

/** What to read when the cursor is here. */
export function nextRead(cursor: Cursor): WindowRead {
  const after = cursor.snapshot ?? beginning;
  const { window: until } = cursor;
  const lower = parseSnapshot(after);
  if (until === null) return { kind: "window", after, late: lower.inProgress.length > 0 };
  if (cursor.keyed) {
    const seq = cursor.seq ?? "-1";
    return { kind: "keyed", after, until, seq, to: cursor.keyedTo ?? seq };
  }
  const tx = BigInt(cursor.tx ?? "0");
  const seq = cursor.seq ?? "-1";
  if (tx < lower.xmax) {
    const upper = parseSnapshot(until);
    const xids = lower.inProgress.filter((xid) => xid >= tx && isVisible(xid, upper));
    if (xids.length > 0) return { kind: "late", xids: xids.map(String), tx: String(tx), seq };
    return { kind: "fresh", until, tx: String(lower.xmax), seq: "-1" };
  }
  return { kind: "fresh", until, tx: String(tx), seq };
}

const bySeq = (a: PlannedRow, b: PlannedRow): number => {
  const difference = BigInt(a.seq) - BigInt(b.seq);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
};

/** Widens the bounds of the keyed rows by those of a page. */
function withKeyed(cursor: Cursor, rows: readonly PlannedRow[]): Cursor {
  let { keyedFrom, keyedTo } = cursor;
  for (const { seq, ordering_key: key } of rows) {
    if (key === null) continue;
    if (keyedFrom === null || BigInt(seq) < BigInt(keyedFrom)) keyedFrom = seq;
    if (keyedTo === null || BigInt(seq) > BigInt(keyedTo)) keyedTo = seq;
  }
  return { ...cursor, keyedFrom, keyedTo };
}

const unkeyed = <Row extends PlannedRow>(rows: readonly Row[]): readonly Row[] =>
  rows.filter((row) => row.ordering_key === null);

/** After the rows without a key: on to those with one, or to the next window. */
function keyedPhase(cursor: Cursor): Cursor {
  if (cursor.keyedFrom === null) return closedAt(cursor.window);
  return { ...cursor, keyed: true, tx: null, seq: String(BigInt(cursor.keyedFrom) - 1n) };
}

/** What follows from a page that was read as {@link nextRead} said. */
export function advance<Row extends PlannedRow>(
  cursor: Cursor,
  read: WindowRead,
  page: WindowPage<Row>,
): WindowStep<Row> {
  const last = page.rows.at(-1);
  if (page.full && last === undefined && read.kind !== "keyed") {
    // Going on would skip what it held back.
    throw new RangeError(`a full page of kind ${read.kind} without a row`);
  }
  switch (read.kind) {
    case "window": {
      if (!page.full || last === undefined) {
        return { rows: page.rows.toSorted(bySeq), cursor: closedAt(page.snapshot) };
      }
      const opened = { ...closedAt(read.after), window: page.snapshot };
      return {
        rows: unkeyed(page.rows),
        cursor: { ...withKeyed(opened, page.rows), tx: last.tx, seq: last.seq },
      };
    }
    case "late": {
      if (last === undefined) {
        const { xmax } = parseSnapshot(cursor.snapshot ?? beginning);
        return { rows: [], cursor: { ...cursor, tx: String(xmax), seq: "-1" } };
      }
      return {
        rows: unkeyed(page.rows),
        cursor: { ...withKeyed(cursor, page.rows), tx: last.tx, seq: last.seq },
      };
    }
    case "fresh": {
      const seen = withKeyed(cursor, page.rows);
      return {
        rows: unkeyed(page.rows),
        cursor:
          page.full && last !== undefined
            ? { ...seen, tx: last.tx, seq: last.seq }
            : keyedPhase(seen),
      };
    }
    case "keyed": {
      const place = page.upto ?? read.to;
      const more = page.full && BigInt(place) < BigInt(read.to);
      return {
        rows: page.rows,
        cursor: more ? { ...cursor, seq: place } : closedAt(cursor.window),
      };
    }
  }
}
