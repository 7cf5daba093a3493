import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseSnapshot, isVisible, type Snapshot } from "./snapshot.ts";
import {
  advance,
  type Cursor,
  firstCursor,
  nextRead,
  type PlannedRow,
  type WindowPage,
  type WindowRead,
} from "./window-planner.ts";

interface ModelRow extends PlannedRow {
  readonly id: string;
}

type Place = Pick<PlannedRow, "tx" | "seq">;

const before = (a: Place, b: Place): boolean =>
  BigInt(a.tx) < BigInt(b.tx) || (a.tx === b.tx && BigInt(a.seq) < BigInt(b.seq));
const byPlace = (a: Place, b: Place): number => (before(a, b) ? -1 : 1);

/** A database that keeps transactions, snapshots and the outbox as PostgreSQL does. */
class ModelDatabase {
  #nextXid = 10n;
  #nextSeq = 1;
  #nextId = 1;
  readonly #open = new Map<number, { xid: bigint; rows: ModelRow[]; keys: Set<string> }>();
  readonly #aborted = new Set<string>();
  readonly rows: ModelRow[] = [];
  /** Ids of committed rows with a key, in commit order of their transactions. */
  readonly committedByKey = new Map<string, string[]>();
  readonly committed = new Set<string>();

  insert(session: number, key: string | null): void {
    const transaction = this.#open.get(session) ?? {
      xid: this.#nextXid++,
      rows: [],
      keys: new Set(),
    };
    // Writers of one key wait for each other, as a row lock of the application makes them.
    const taken = [...this.#open].some(
      ([other, { keys }]) => other !== session && keys.has(key ?? ""),
    );
    this.#open.set(session, transaction);
    if (key !== null && taken) return;
    if (key !== null) transaction.keys.add(key);
    const row = {
      tx: String(transaction.xid),
      seq: String(this.#nextSeq++),
      id: String(this.#nextId++),
      ordering_key: key,
    };
    transaction.rows.push(row);
  }

  end(session: number, commit: boolean): void {
    const transaction = this.#open.get(session);
    if (transaction === undefined) return;
    this.#open.delete(session);
    if (!commit) {
      this.#aborted.add(String(transaction.xid));
      return;
    }
    for (const row of transaction.rows) {
      this.rows.push(row);
      this.committed.add(row.id);
      const { ordering_key: key } = row;
      if (key !== null)
        this.committedByKey.set(key, [...(this.committedByKey.get(key) ?? []), row.id]);
    }
  }

  endAll(): void {
    for (const session of this.#open.keys()) this.end(session, true);
  }

  snapshot(): string {
    const inProgress = [...this.#open.values()]
      .map(({ xid }) => xid)
      .sort((a, b) => (a < b ? -1 : 1));
    return `${inProgress[0] ?? this.#nextXid}:${this.#nextXid}:${inProgress.join(",")}`;
  }

  read(read: WindowRead, limit: number): WindowPage<ModelRow> {
    const page = (
      rows: readonly ModelRow[],
      snapshot: string | null = null,
    ): WindowPage<ModelRow> => {
      const found = rows.toSorted(byPlace).slice(0, limit);
      return { snapshot, rows: found, full: found.length === limit, upto: null };
    };
    switch (read.kind) {
      case "window": {
        const now = this.snapshot();
        const lower = parseSnapshot(read.after);
        const inside = this.rows.filter(({ tx }) => !isVisible(BigInt(tx), lower));
        const fresh = inside.filter(({ tx }) => BigInt(tx) >= lower.xmax);
        return page(read.late ? inside : fresh, now);
      }
      case "late": {
        const after = this.rows.filter((row) => before(read, row));
        const xid = read.xids.find((tx) => after.some((row) => row.tx === tx));
        return page(after.filter((row) => row.tx === xid));
      }
      case "fresh": {
        const upper = parseSnapshot(read.until);
        return page(
          this.rows.filter((row) => before(read, row) && isVisible(BigInt(row.tx), upper)),
        );
      }
      case "keyed": {
        const [lower, upper]: Snapshot[] = [read.after, read.until].map(parseSnapshot);
        if (lower === undefined || upper === undefined) throw new Error("no bounds");
        const looked = this.rows
          .filter(({ seq, ordering_key: key }) => {
            return key !== null && BigInt(seq) > BigInt(read.seq) && BigInt(seq) <= BigInt(read.to);
          })
          .toSorted((a, b) => Number(a.seq) - Number(b.seq))
          .slice(0, limit);
        const inside = looked.filter(({ tx }) => {
          return isVisible(BigInt(tx), upper) && !isVisible(BigInt(tx), lower);
        });
        return {
          snapshot: null,
          rows: inside,
          full: looked.length === limit,
          upto: looked.at(-1)?.seq ?? null,
        };
      }
    }
  }
}

const session = fc.nat({ max: 5 });
const action = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("insert" as const),
      session,
      key: fc.constantFrom(null, null, "a", "b"),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("commit" as const), session }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("abort" as const), session }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("read" as const),
      pages: fc.integer({ min: 1, max: 4 }),
    }),
  },
  // A crash: only some of the pages that were read had been confirmed and saved.
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("crash" as const), saved: fc.nat({ max: 3 }) }),
  },
);

/** A relay that reads the model and publishes into a list. */
class ModelRelay {
  readonly published: ModelRow[] = [];
  #cursor: Cursor = firstCursor;
  #saved: Cursor = firstCursor;
  #unsaved: Cursor[] = [];

  read(database: ModelDatabase, limit: number): number {
    const read = nextRead(this.#cursor);
    const step = advance(this.#cursor, read, database.read(read, limit));
    this.published.push(...step.rows);
    this.#cursor = step.cursor;
    this.#unsaved.push(step.cursor);
    return step.rows.length;
  }

  crash(saved: number): void {
    this.#saved = this.#unsaved[saved - 1] ?? this.#saved;
    this.#unsaved = [];
    this.#cursor = this.#saved;
  }

  drain(database: ModelDatabase, limit: number): void {
    for (let quiet = 0, turns = 0; quiet < 2; turns += 1) {
      if (turns > 10_000) throw new Error("the relay does not come to an end");
      const found = this.read(database, limit);
      quiet = found === 0 && this.#cursor.window === null ? quiet + 1 : 0;
    }
  }
}

test("every committed row is published, none that was not, and a key's rows in commit order", () => {
  fc.assert(
    fc.property(
      fc.array(action, { maxLength: 60, size: "max" }),
      fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 4, max: 40 })),
      (actions, limit) => {
        const database = new ModelDatabase();
        const relay = new ModelRelay();
        let crashed = false;
        for (const step of actions) {
          if (step.do === "insert") database.insert(step.session, step.key);
          else if (step.do === "commit") database.end(step.session, true);
          else if (step.do === "abort") database.end(step.session, false);
          else if (step.do === "read")
            for (let n = 0; n < step.pages; n += 1) relay.read(database, limit);
          else {
            relay.crash(step.saved);
            crashed = true;
          }
        }
        database.endAll();
        relay.drain(database, limit);

        const ids = relay.published.map(({ id }) => id);
        const first = [...new Set(ids)];
        expect(new Set(ids)).toEqual(database.committed);
        if (!crashed) expect(first).toHaveLength(ids.length);
        for (const [key, order] of database.committedByKey) {
          const keyOf = new Map(relay.published.map((row) => [row.id, row.ordering_key]));
          expect(first.filter((id) => keyOf.get(id) === key)).toEqual(order);
        }
      },
    ),
    { numRuns: 1_500 },
  );
});

test("a window of less than a page is read without the part for late transactions where there are none", () => {
  expect(nextRead(firstCursor)).toEqual({ kind: "window", after: "1:1:", late: false });
  expect(nextRead({ ...firstCursor, snapshot: "10:20:10,12" })).toMatchObject({ late: true });
});

test("a text that is no snapshot is refused", () => {
  for (const text of ["", "1:2", "a:b:c", "1:2:x", "-1:2:"]) {
    expect(() => parseSnapshot(text)).toThrow(TypeError);
  }
});
