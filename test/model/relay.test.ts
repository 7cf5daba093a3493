/**
 * Relays under schedules by chance: any order of commits, of the database's answers and of the broker's
 * confirms, with crashes, zombies, lost links and lost saves; then the faults end and it must drain.
 */

import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Fate } from "./model-link.ts";
import type { StatementFate } from "./model-relay-store.ts";
import { RelayWorld } from "./relay-world.ts";
import { patienceMs, schedules } from "./schedules.ts";

beforeAll(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"],
  });
});
afterAll(() => {
  vi.useRealTimers();
});

const pick = fc.nat({ max: 5 });
const fate = fc.constantFrom<Fate>("ack", "ack", "ack", "nack", "return");
const statementFate = fc.constantFrom<StatementFate>("run", "answer", "answer", "refuse", "lose");

/** What may happen, with how often. */
const happening = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("insert" as const),
      session: pick,
      key: fc.constantFrom(null, null, "a", "b"),
      bytes: fc.integer({ min: 1, max: 9 }),
      isPoison: fc.nat({ max: 15 }).map((n) => n === 15),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("commit" as const), session: pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("abort" as const), session: pick }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant("statement" as const), pick, fate: statementFate }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("take" as const),
      relay: pick,
      fates: fc.array(fate, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("confirm" as const),
      relay: pick,
      pick,
      multiple: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("serve" as const),
      fates: fc.array(fate, { minLength: 1, maxLength: 4 }),
      multiple: fc.boolean(),
      breaks: fc.nat({ max: 4 }).map((n) => n === 4),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("time" as const),
      ms: fc.constantFrom(2, 21, 300, 3_000, 11_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("lose", "connect", "block", "unblock", "fill", "drain"),
      relay: pick,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom("kill", "stop", "disconnect"), relay: pick }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("start" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("crash" as const), savesLost: fc.nat({ max: 3 }) }),
  },
);
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;

/** Returns false where nothing has to settle. */
async function happen(world: RelayWorld, strict: boolean, step: Happening): Promise<boolean> {
  const { database } = world;
  switch (step.do) {
    case "insert":
      world.insert(step.session, step.key, step.bytes, step.isPoison);
      return false;
    case "commit":
      database.commit(step.session);
      return false;
    case "abort":
      database.outbox.end(step.session, false);
      return false;
    case "statement":
      database.step(step.pick, step.fate);
      return true;
    case "take":
      world.relay(step.relay)?.link.take(step.fates);
      return true;
    case "confirm":
      world.relay(step.relay)?.link.confirm(step.pick, step.multiple);
      return true;
    case "serve":
      await world.serve(step.fates, step.multiple, step.breaks);
      return false;
    case "time":
      vi.advanceTimersByTime(step.ms);
      return true;
    case "start":
      world.start();
      return true;
    case "crash": {
      database.crash(step.savesLost);
      // Behind a pooler nobody tells the relays.
      if (!strict) for (let n = 0; n < 3; n += 1) world.relay(n)?.disconnect();
      return true;
    }
    case "lose":
    case "connect":
    case "drain":
      world.relay(step.relay)?.link[step.do]();
      return true;
    case "block":
    case "unblock":
      world.relay(step.relay)?.link.block(step.do === "block");
      return true;
    case "fill": {
      const link = world.relay(step.relay)?.link;
      if (link !== undefined) link.isFull = true;
      return true;
    }
    case "kill":
    case "disconnect":
      world.relay(step.relay)?.[step.do]();
      return true;
    case "stop":
      world.relay(step.relay)?.stop.abort();
      return true;
  }
}

test(
  "no row is skipped and no cursor passes one that is unconfirmed, whatever the order of commits, answers and confirms",
  { timeout: patienceMs },
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(happening, { maxLength: 70, size: "max" }),
        fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 4, max: 40 })),
        fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constant(1_000)),
        fc.boolean(),
        async (steps, rows, bytes, strict) => {
          const world = new RelayWorld({ limits: { rows, bytes }, strict });
          try {
            world.start();
            for (const step of steps) {
              if (await happen(world, strict, step)) await world.settle();
            }
            expect(await world.drain()).toEqual([]);
          } finally {
            await world.close();
          }
        },
      ),
      schedules(2_000),
    );
  },
);
