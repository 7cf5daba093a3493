import { setTimeout as delay } from "node:timers/promises";
import { createOutbox, pgDatabase } from "@waybill/postgres";
import type { PoolClient } from "pg";
import type { TestDatabase } from "../../support/index.ts";
import { randomFrom } from "../../support/random.ts";
import { doomed, effect, plain } from "./jobs.ts";

class Undo extends Error {}

async function record(tx: PoolClient, ids: readonly string[], kind: string): Promise<void> {
  await tx.query("insert into business (job_id, kind) select unnest($1::uuid[]), $2", [ids, kind]);
}

/**
 * Enqueues jobs in transactions that commit, roll back, and roll savepoints back, until the signal.
 * Jobs with an ordering key are numbered under a lock that is held until the commit.
 *
 * @param options `keys` is the number of ordering keys
 * @returns how many transactions committed and rolled back
 */
export async function produce(
  database: TestDatabase,
  options: { readonly seed: number; readonly keys: number; readonly signal: AbortSignal },
): Promise<{ readonly committed: number; readonly undone: number }> {
  const layer = pgDatabase<PoolClient>(database.pool);
  const outbox = createOutbox({ database: layer });
  const { seed, keys, signal } = options;
  const counts = { committed: 0, undone: 0 };

  async function some(tx: PoolClient, random: () => number): Promise<void> {
    const items = Array.from({ length: 1 + Math.floor(random() * 4) }, () => ({
      payload: {
        failures: random() < 0.15 ? 1 + Math.floor(random() * 2) : 0,
        children: random() < 0.1 ? 2 : 0,
      },
      options: random() < 0.15 ? { delayMs: Math.floor(random() * 1_500) } : {},
    }));
    const receipts = await outbox.enqueueMany(tx, effect, items);
    await record(
      tx,
      receipts.map(({ jobId }) => jobId),
      "effect",
    );
    if (random() < 0.4) await record(tx, [(await outbox.enqueue(tx, plain, {})).jobId], "plain");
    if (random() < 0.1) await record(tx, [(await outbox.enqueue(tx, doomed, {})).jobId], "doomed");
  }

  async function keyed(tx: PoolClient, key: string, jobs: number): Promise<void> {
    for (let n = 0; n < jobs; n += 1) {
      const { rows } = await tx.query<{ seq: number }>(
        "update account set seq = seq + 1 where key = $1 returning seq",
        [key],
      );
      const payload = { failures: 0, children: 0 };
      const { jobId } = await outbox.enqueue(tx, effect, payload, { orderingKey: key });
      await tx.query("insert into business values ($1, 'effect', $2, $3)", [
        jobId,
        key,
        rows[0]?.seq,
      ]);
    }
  }

  async function transaction(tx: PoolClient, random: () => number): Promise<void> {
    await some(tx, random);
    if (random() < 0.3) {
      await tx.query("savepoint inner_step");
      await some(tx, random);
      if (random() < 0.5) await tx.query("rollback to savepoint inner_step");
    }
    await delay(random() * 20);
    if (random() < 0.4) await keyed(tx, `key-${1 + Math.floor(random() * keys)}`, 2);
    if (random() < 0.15) throw new Undo();
  }

  async function loop(random: () => number): Promise<void> {
    while (!signal.aborted) {
      try {
        await layer.transaction((tx) => transaction(tx, random));
        counts.committed += 1;
      } catch (error) {
        if (!(error instanceof Undo)) throw error;
        counts.undone += 1;
      }
      await delay(random() * 60);
    }
  }

  await Promise.all([1, 2, 3, 4].map((n) => loop(randomFrom(seed * 10 + n))));
  return counts;
}
