import * as fc from "fast-check";
import { expect, test } from "vitest";
import { ModelOutbox, type Limits, type ModelRow } from "../../../test/model/model-outbox.ts";
import { patienceMs, schedules } from "../../../test/model/schedules.ts";
import { parseSnapshot } from "./snapshot.ts";
import { advance, type Cursor, firstCursor, nextRead } from "./window-planner.ts";

const session = fc.nat({ max: 5 });
const action = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("insert" as const),
      session,
      key: fc.constantFrom(null, null, "a", "b"),
      bytes: fc.integer({ min: 1, max: 9 }),
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

  read(outbox: ModelOutbox<ModelRow>, limits: Limits): number {
    const read = nextRead(this.#cursor);
    const step = advance(this.#cursor, read, outbox.read(read, limits));
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

  drain(outbox: ModelOutbox<ModelRow>, limits: Limits): void {
    for (let quiet = 0, turns = 0; quiet < 2; turns += 1) {
      if (turns > 10_000) throw new Error("the relay does not come to an end");
      const found = this.read(outbox, limits);
      quiet = found === 0 && this.#cursor.window === null ? quiet + 1 : 0;
    }
  }
}

test(
  "every committed row is published, none that was not, and a key's rows in commit order",
  { timeout: patienceMs },
  () => {
    fc.assert(
      fc.property(
        fc.array(action, { maxLength: 60, size: "max" }),
        fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 4, max: 40 })),
        fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constant(1_000)),
        (actions, rows, bytes) => {
          const outbox = new ModelOutbox<ModelRow>();
          const relay = new ModelRelay();
          const limits = { rows, bytes };
          let ids = 0;
          let crashed = false;
          for (const step of actions) {
            if (step.do === "insert") {
              const { key: ordering_key, bytes: size } = step;
              outbox.insert(step.session, { id: String((ids += 1)), ordering_key, bytes: size });
            } else if (step.do === "commit") outbox.end(step.session, true);
            else if (step.do === "abort") outbox.end(step.session, false);
            else if (step.do === "read")
              for (let n = 0; n < step.pages; n += 1) relay.read(outbox, limits);
            else {
              relay.crash(step.saved);
              crashed = true;
            }
          }
          for (const open of outbox.sessions) outbox.end(open, true);
          relay.drain(outbox, limits);

          const published = relay.published.map(({ id }) => id);
          const first = [...new Set(published)];
          expect(new Set(first)).toEqual(new Set(outbox.rows.map(({ id }) => id)));
          if (!crashed) expect(first).toHaveLength(published.length);
          for (const key of ["a", "b"]) {
            const order = outbox.rows.filter((row) => row.ordering_key === key).map(({ id }) => id);
            expect(first.filter((id) => order.includes(id))).toEqual(order);
          }
        },
      ),
      schedules(3_000),
    );
  },
);

test("a window of less than a page is read without the part for late transactions where there are none", () => {
  expect(nextRead(firstCursor)).toEqual({ kind: "window", after: "1:1:", late: false });
  expect(nextRead({ ...firstCursor, snapshot: "10:20:10,12" })).toMatchObject({ late: true });
});

test("a text that is no snapshot is refused", () => {
  for (const text of ["", "1:2", "a:b:c", "1:2:x", "-1:2:"]) {
    expect(() => parseSnapshot(text)).toThrow(TypeError);
  }
});
