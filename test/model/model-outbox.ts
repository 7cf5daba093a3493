/**
 * The outbox in a model of PostgreSQL: transactions with ids, of which each snapshot knows exactly
 * those that had ended; rows that are seen by nobody before the commit; sequence numbers in the order of
 * writing. The reads are those of the relay's statements (`read_*.sql`), limits and all.
 *
 * Written a second time on purpose: visibility here shares no code with the relay's `snapshot.ts`.
 */

import type {
  PlannedRow,
  WindowPage,
  WindowRead,
} from "../../packages/relay/src/window-planner.ts";

/** What a row has to say about itself. */
export interface ModelRow {
  readonly id: string;
  readonly ordering_key: string | null;
  /** Bytes of its payload. */
  readonly bytes: number;
}

/** A row as it was written. */
export type Written<Row extends ModelRow> = Row & PlannedRow;

/** As PageLimits of packages/postgres. */
export interface Limits {
  readonly rows: number;
  readonly bytes: number;
}

interface Transaction<Row extends ModelRow> {
  readonly xid: number;
  readonly rows: Written<Row>[];
  readonly keys: Set<string>;
}

type Place = Pick<PlannedRow, "tx" | "seq">;

const isAfter = (row: Place, place: Place): boolean =>
  Number(row.tx) > Number(place.tx) || (row.tx === place.tx && Number(row.seq) > Number(place.seq));
const byPlace = (a: Place, b: Place): number => (isAfter(a, b) ? 1 : -1);
const bySeq = (a: Place, b: Place): number => Number(a.seq) - Number(b.seq);

/** Which transactions a snapshot sees, from its text "xmin:xmax:xip,xip,...". */
export function visibleIn(snapshot: string): (tx: string) => boolean {
  const [, xmax, list = ""] = snapshot.split(":");
  const inProgress = new Set(list.split(","));
  return (tx) => Number(tx) < Number(xmax) && !inProgress.has(tx);
}

/** See the head of the file. */
export class ModelOutbox<Row extends ModelRow> {
  #nextXid = 10;
  #nextSeq = 1;
  readonly #open = new Map<number, Transaction<Row>>();
  /** Committed rows, in commit order. */
  readonly rows: Written<Row>[] = [];

  /** Begins the session's transaction, which then has an id and no row yet. */
  begin(session: number): void {
    this.#begin(session);
  }

  #begin(session: number): Transaction<Row> {
    let transaction = this.#open.get(session);
    if (transaction === undefined) {
      transaction = { xid: this.#nextXid++, rows: [], keys: new Set() };
      this.#open.set(session, transaction);
    }
    return transaction;
  }

  /** Sessions with an open transaction. */
  get sessions(): readonly number[] {
    return [...this.#open.keys()];
  }

  /** True where the transaction of a session would wait for another one that has written the key. */
  waits(session: number, key: string | null): boolean {
    if (key === null) return false;
    return [...this.#open].some(([other, { keys }]) => other !== session && keys.has(key));
  }

  /**
   * Writes a row in the session's transaction; the first one begins it. Writers of one ordering key
   * wait for each other, as a row lock of the application makes them: then nothing is written yet.
   */
  insert(session: number, row: Row): boolean {
    const transaction = this.#begin(session);
    const { ordering_key: key } = row;
    if (this.waits(session, key)) return false;
    if (key !== null) transaction.keys.add(key);
    transaction.rows.push(this.#written(transaction, row));
    return true;
  }

  #written({ xid }: Transaction<Row>, row: Row): Written<Row> {
    return { ...row, tx: String(xid), seq: String(this.#nextSeq++) };
  }

  /** Ends the session's transaction; returns the rows that it has committed. */
  end(session: number, commit: boolean): readonly Written<Row>[] {
    const transaction = this.#open.get(session);
    this.#open.delete(session);
    if (transaction === undefined || !commit) return [];
    this.rows.push(...transaction.rows);
    return transaction.rows;
  }

  /** Writes rows in a transaction of their own; in one that began earlier, where `session` has one. */
  write(rows: readonly Row[], session = -1): readonly Written<Row>[] {
    const transaction = this.#begin(session);
    transaction.rows.push(...rows.map((row) => this.#written(transaction, row)));
    return this.end(session, true);
  }

  snapshot(): string {
    const inProgress = [...this.#open.values()].map(({ xid }) => xid).sort((a, b) => a - b);
    return `${inProgress[0] ?? this.#nextXid}:${this.#nextXid}:${inProgress.join(",")}`;
  }

  /** Runs a read of the relay. */
  read(read: WindowRead, limits: Limits): WindowPage<Written<Row>> {
    switch (read.kind) {
      case "window": {
        const snapshot = this.snapshot();
        const [seen, isNew] = [visibleIn(read.after), Number(read.after.split(":")[1])];
        const found = this.rows.filter(({ tx }) => (read.late ? !seen(tx) : Number(tx) >= isNew));
        return { ...page(found, limits, ({ bytes }) => bytes), snapshot };
      }
      case "late": {
        const after = this.rows.filter((row) => isAfter(row, read));
        const xid = read.xids.find((tx) => after.some((row) => row.tx === tx));
        return page(
          after.filter((row) => row.tx === xid),
          limits,
          unkeyedBytes,
        );
      }
      case "fresh": {
        const seen = visibleIn(read.until);
        const found = this.rows.filter((row) => isAfter(row, read) && seen(row.tx));
        return page(found, limits, unkeyedBytes);
      }
      case "keyed":
        return this.#keyed(read, limits);
    }
  }

  #keyed(read: WindowRead & { kind: "keyed" }, limits: Limits): WindowPage<Written<Row>> {
    const [lower, upper] = [visibleIn(read.after), visibleIn(read.until)];
    const isInside = ({ tx }: Place): boolean => upper(tx) && !lower(tx);
    const looked = this.rows
      .filter((row) => row.ordering_key !== null)
      .filter(({ seq }) => Number(seq) > Number(read.seq) && Number(seq) <= Number(read.to))
      .toSorted(bySeq)
      .slice(0, limits.rows);
    const within = fitting(looked, limits, (row) => (isInside(row) ? row.bytes : 0));
    return {
      snapshot: null,
      rows: within.filter(isInside),
      full: within.length < looked.length || looked.length >= limits.rows,
      upto: within.at(-1)?.seq ?? null,
    };
  }
}

/** Pages of open windows leave the payloads of keyed rows for later. */
const unkeyedBytes = ({ ordering_key: key, bytes }: ModelRow): number => (key === null ? bytes : 0);

/** The rows before the limit of bytes is reached, and the one that reaches it. */
function fitting<Row>(
  rows: readonly Row[],
  limits: Limits,
  bytesOf: (row: Row) => number,
): readonly Row[] {
  let bytes = 0;
  return rows.filter((row) => {
    const fits = bytes < limits.bytes;
    bytes += bytesOf(row);
    return fits;
  });
}

function page<Row extends ModelRow>(
  found: readonly Written<Row>[],
  limits: Limits,
  bytesOf: (row: Row) => number,
): WindowPage<Written<Row>> {
  const scanned = found.toSorted(byPlace).slice(0, limits.rows);
  const rows = fitting(scanned, limits, bytesOf);
  const full = scanned.length >= limits.rows || rows.length < scanned.length;
  return { snapshot: null, rows, full, upto: null };
}
