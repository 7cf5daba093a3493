/** Keeps a line in work while it is measured, and knows which jobs there are. */

import { pgDatabase } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { setTimeout as delay } from "node:timers/promises";
import type { Item, Line } from "./line.ts";
import type { Stage } from "./stage.ts";

class RolledBack extends Error {}

/** What a producer does. */
export interface ProducerPlan {
  /** The job of a number. */
  readonly itemOf: (n: number) => Item;
  /** Jobs of one transaction. */
  readonly batch: number;
  /** More are enqueued while fewer than so many are unfinished. */
  readonly unfinished: number;
  /** Jobs that it ends with; undefined: when it is told to. */
  readonly jobs?: number | undefined;
  /** One transaction of so many is rolled back. */
  readonly rollbackEvery: number;
}

/** What it did. */
export interface Produced {
  readonly committed: number;
  /** Jobs of transactions that were rolled back: numbers below 0. */
  readonly rolledBack: number;
}

/** Enqueues until `isOver` says so, or all jobs are there. Numbers are in the order of commits. */
export async function produce(
  stage: Stage,
  line: Line,
  plan: ProducerPlan,
  isOver: () => boolean,
): Promise<Produced> {
  const { jobs = Number.POSITIVE_INFINITY, batch, itemOf } = plan;
  const database = pgDatabase<PoolClient>(line.ground.pool);
  let committed = 0;
  let rolledBack = 0;
  for (let turn = 1; committed < jobs && !isOver(); turn += 1) {
    const unfinished = committed - (await line.count("succeeded"));
    if (unfinished >= plan.unfinished) {
      await delay(50, undefined, { signal: stage.stop.signal });
      continue;
    }
    const count = Math.min(batch, jobs - committed);
    if (turn % plan.rollbackEvery === 0) {
      const ghosts = Array.from({ length: count }, (_, n): Item => {
        const item = itemOf(committed + n);
        return { ...item, payload: { ...item.payload, n: -1 - n } };
      });
      const refused = database.transaction(async (tx) => {
        await line.write(tx, ghosts);
        throw new RolledBack();
      });
      await refused.catch((error: unknown) => {
        if (!(error instanceof RolledBack)) throw error;
      });
      rolledBack += count;
      continue;
    }
    await line.enqueue(Array.from({ length: count }, (_, n) => itemOf(committed + n)));
    committed += count;
  }
  return { committed, rolledBack };
}
