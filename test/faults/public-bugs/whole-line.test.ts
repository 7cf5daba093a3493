/**
 * The whole line under chance: producers that commit and roll back, two relays and three workers as
 * processes that are killed and frozen all the time; then it drains, and the ledger is asked.
 */

import { expect, test } from "vitest";
import { connected, declared } from "../../rabbitmq/support.ts";
import {
  createMigratedDatabase,
  createTestVhost,
  eventually,
  type TestDatabase,
} from "../../support/index.ts";
import { randomFrom, seedOf } from "../../support/random.ts";
import { createLedger, faultsIn, onTheWay } from "../../public-bugs/whole-line/ledger.ts";
import { startFleet } from "../../public-bugs/whole-line/fleet.ts";
import { queue } from "../../public-bugs/whole-line/jobs.ts";
import { produce } from "../../public-bugs/whole-line/producers.ts";

const keys = 4;
const loadMs = 15_000;

/** Notes every first dispatch of a job in the order in which the broker got it, beside its queue. */
async function observe(url: string, prefix: string) {
  const connection = await connected(url);
  await declared(connection, prefix, [queue]);
  const channel = await connection.openChannel();
  const seen: string[] = [];
  const observer = await channel.raw.assertQueue("", { exclusive: true });
  await channel.raw.bindQueue(observer.queue, `${prefix}.jobs`, "#");
  await channel.raw.consume(
    observer.queue,
    (message) => message && seen.push(String(message.properties.messageId)),
    { noAck: true },
  );
  return {
    seen,
    depth: async () => (await channel.raw.checkQueue(`${prefix}.${queue}`)).messageCount,
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

async function drained(database: TestDatabase, depth: () => Promise<number>): Promise<void> {
  await eventually(
    async () => {
      const [left] = await database.rows(onTheWay);
      expect({ ...left, ready: await depth() }).toEqual({
        unfinished: 0,
        timers: 0,
        unpublished: 0,
        ready: 0,
      });
    },
    { deadlineMs: 35_000, intervalMs: 200 },
  );
}

test("with relays and workers killed and frozen at random, every committed job ends, no other exists, effects are there once, and keys keep their order", async () => {
  const seed = seedOf("whole line");
  await using database = await createMigratedDatabase({ poolSize: 8 });
  await using vhost = await createTestVhost();
  await createLedger(database, keys);
  await using broker = await observe(vhost.url, vhost.prefix);
  await using fleet = await startFleet(
    { databaseUrl: database.url, brokerUrl: vhost.url, prefix: vhost.prefix },
    { relay: 2, worker: 3 },
  );

  const signal = AbortSignal.timeout(loadMs);
  const [produced, torments] = await Promise.all([
    produce(database, { seed, keys, signal }),
    fleet.torment(randomFrom(seed), signal),
  ]);
  await drained(database, broker.depth).catch((error: unknown) => {
    // The ledger tells more than what is left.
    console.log(error);
  });
  await database.rows("insert into published select * from unnest($1::int[], $2::uuid[])", [
    broker.seen.map((_, n) => n),
    broker.seen,
  ]);

  const [{ jobs, effects, repeated } = {}] = await database.rows(
    `select (select count(*)::int from business) as jobs, (select count(*)::int from effect) as effects,
      (select count(*)::int - count(distinct job_id)::int from published) as repeated`,
  );
  console.log({ seed, ...produced, jobs, effects, repeated, ...torments });
  expect(await faultsIn(database), `WAYBILL_SEED=${seed}`).toEqual({});
  await drained(database, broker.depth);
  expect(fleet.failures()).toEqual([]);
}, 120_000);
