/**
 * The statements on inbox, timers and dead letters against the model that the schedules of
 * `test/model` run on: the same steps by chance in both, and after each step the same answers and the
 * same rows. So what holds in the schedules of the model is said about this SQL.
 */

import * as fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { patienceMs, schedules } from "../model/schedules.ts";
import { createMigratedDatabase } from "../support/index.ts";
import {
  jobCount,
  type OwnedPick,
  StatementPair,
  type StatementStep,
} from "./support/statement-pair.ts";
import { farMs, prepareServer, type Server, type WorkerName } from "./support/statement-server.ts";

let server: Server;

beforeAll(async () => {
  const database = await createMigratedDatabase();
  server = await prepareServer(database);
  return () => database[Symbol.asyncDispose]();
});

const worker = fc.constantFrom<WorkerName>("alive", "other", "dead", "unlocked", "gone");
const job = fc.nat({ max: jobCount - 1 });
const jobs = fc.uniqueArray(job, { minLength: 1, maxLength: jobCount });
const dispatch = fc.integer({ min: 1, max: 3 });
const owned = fc.array<OwnedPick>(
  fc.record({
    job,
    isLeased: fc.boolean(),
    isOld: fc.nat({ max: 5 }).map((n) => n === 5),
    delayMs: fc.constantFrom(undefined, 0, farMs),
    dispatch,
  }),
  { minLength: 1, maxLength: jobCount },
);
const step = fc.oneof<fc.WeightedArbitrary<StatementStep>[]>(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("claim"),
      worker,
      jobs,
      dispatch,
      death: fc.nat({ max: 2 }),
      expiresInMs: fc.constantFrom(null, null, farMs, -farMs),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "complete",
        "commit",
        "fail",
        "fail",
        "cancel attempts",
        "release",
        "hold",
        "hold",
      ),
      owned,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("park"),
      worker,
      jobs,
      dispatch,
      death: fc.nat({ max: 1 }),
      delayMs: fc.constantFrom(0, farMs),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("cancel", "retry"), jobs }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("park dispatch"),
      row: fc.nat({ max: 40 }),
      reason: fc.constantFrom("unroutable", "nacked", "refused"),
      delayMs: fc.constantFrom(null, 0, farMs),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("fire timers", "redispatch") }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("fire leases"), wasMissing: fc.boolean() }),
  },
);

test(
  "the statements do with every job what the model of the schedules does",
  { timeout: patienceMs },
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 10, maxLength: 30, size: "max" }),
        async (steps) => {
          const pair = new StatementPair(server);
          await pair.begin();
          for (const each of steps) {
            const { sql, model } = await pair.take(each);
            expect(sql).toEqual(model);
          }
        },
      ),
      schedules(20),
    );
  },
);
