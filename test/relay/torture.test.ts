/**
 * Transactions that commit in another order than they began, roll back in part and in whole, beside
 * one that stays open throughout (B1, B2, A04): every committed job is published, nothing else is,
 * and jobs of one key in the order of their commits.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { ClientBase } from "pg";
import { expect, test } from "vitest";

import { eventually } from "../support/index.ts";
import { randomFrom } from "../support/random.ts";
import {
  enqueue,
  type House,
  inTransaction,
  isDrained,
  openTransaction,
  startHouse,
} from "./support.ts";

const writers = 12;
const turns = 25;

/** What was committed: ids, and those of each key in commit order (told by a locked counter). */
interface Ledger {
  readonly committed: Set<string>;
  readonly byKey: Map<string, string[]>;
}

class Rollback extends Error {}

async function turn(client: ClientBase, random: () => number, ledger: Ledger): Promise<() => void> {
  const mine: string[] = [];
  const keyed: [key: string, id: string][] = [];
  const some = 1 + Math.floor(random() * 3);
  // Before any lock: this transaction may get the lower xid and commit later.
  for (let n = 0; n < some; n += 1) mine.push(...(await enqueue(client, [{}])));
  if (random() < 0.5) {
    await client.query("savepoint s");
    const ids = await enqueue(client, [{}, {}]);
    if (random() < 0.5) await client.query("rollback to savepoint s");
    else mine.push(...ids);
  }
  await delay(random() * 30);
  if (random() < 0.6) {
    const key = `key-${Math.floor(random() * 4)}`;
    // Writers of a key are serialised by their own data, as in an application.
    await client.query("update account set version = version + 1 where name = $1", [key]);
    await delay(random() * 5);
    const ids = await enqueue(client, [{ ordering_key: key }]);
    mine.push(...ids);
    keyed.push([key, ids[0] ?? ""]);
  }
  await delay(random() * 10);
  if (random() < 0.15) throw new Rollback();
  return () => {
    for (const id of mine) ledger.committed.add(id);
    for (const [key, id] of keyed) ledger.byKey.set(key, [...(ledger.byKey.get(key) ?? []), id]);
  };
}

async function write(house: House, seed: number): Promise<Ledger> {
  const ledger: Ledger = { committed: new Set(), byKey: new Map() };
  const one = async (writer: number): Promise<void> => {
    const random = randomFrom(seed * 1_000 + writer);
    for (let n = 0; n < turns; n += 1) {
      try {
        await inTransaction(house.database.pool, async (client) => {
          const note = await turn(client, random, ledger);
          note();
        });
      } catch (error) {
        if (!(error instanceof Rollback)) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: writers }, (_, writer) => one(writer)));
  return ledger;
}

/** What differed between what was committed and what was published. */
interface Differences {
  readonly missing: ReadonlySet<string>;
  readonly phantoms: ReadonlySet<string>;
  readonly repeated: number;
  /** Keys whose jobs did not come in the order of their commits. */
  readonly outOfOrder: readonly string[];
}

const none: Differences = {
  missing: new Set(),
  phantoms: new Set(),
  repeated: 0,
  outOfOrder: [],
};

async function torture(seed: number, batchSize: number): Promise<Differences> {
  await using house = await startHouse({ database: { poolSize: writers + 4 } });
  await house.database.rows("create table account (name text primary key, version int)");
  await house.database.rows(
    "insert into account select 'key-' || n, 0 from generate_series(0, 3) as n",
  );
  await house.declare("email");
  const collected = await house.collect("email");
  house.startRelay({ batchSize });
  await using held = await openTransaction(house.database.pool);
  const open = held.client;
  const late = await enqueue(open, [{}, { ordering_key: "late" }]);

  const ledger = await write(house, seed);

  // Nothing waited for the open transaction.
  const missing = (): Set<string> => ledger.committed.difference(new Set(collected.ids));
  await eventually(() => expect(missing()).toEqual(new Set()));
  await held.commit();
  for (const id of late) ledger.committed.add(id);
  await eventually(() => expect(missing()).toEqual(new Set()));
  await eventually(() => isDrained(house));
  const keyOf = new Map(
    collected.messages.map(({ id, headers }) => [id, headers["waybill-ordering-key"]]),
  );
  return {
    missing: missing(),
    phantoms: new Set(collected.ids).difference(ledger.committed),
    repeated: collected.messages.length - collected.ids.length,
    outOfOrder: [...ledger.byKey].flatMap(([key, order]) => {
      const seen = collected.ids.filter((id) => keyOf.get(id) === key);
      return seen.join() === order.join() ? [] : [key];
    }),
  };
}

test("B1: whatever the order of commits, every committed job is published once, none else, and a key's jobs in commit order", async () => {
  expect(await torture(1, 1_000)).toEqual(none);
});

test("B1: the same while every window is paged two rows at a time", async () => {
  expect(await torture(2, 2)).toEqual(none);
});
