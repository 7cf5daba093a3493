/** Payloads that only producers and workers can read: S8. */

import { defineEvent, defineJob } from "@waybill/core";
import { createJobs, createOutbox, pgDatabase } from "@waybill/postgres";
import { drainJobs, enqueuedJobs, expectEnqueued } from "@waybill/testing";
import { createWorker, type Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, type TestDatabase } from "../support/index.ts";
import { keyRing, note, startGuardedLine, write, writesNotes } from "./guarded-line.ts";

const canary = "canary-4711-secret";
const noted = defineEvent({ name: "note.noted", payload: z.object({ text: z.string() }) });

/** Everything that Waybill's tables hold, as text. */
async function contents(database: TestDatabase): Promise<string> {
  const tables = await database.rows<{ name: string }>(
    "select format('waybill.%I', relname) as name from pg_class where relkind in ('r', 'p') and relnamespace = 'waybill'::regnamespace",
  );
  const rows = await Promise.all(
    tables.map(({ name }) => database.rows(`select t::text as row from ${name} as t`)),
  );
  return JSON.stringify(rows);
}

const writesTexts = (worker: Worker<PoolClient>): void =>
  worker.handleInTransaction(note, (job, tx) => write(tx, job.payload.text));

test("S8: the payload is open in the handler, and nowhere in database, broker and log, also of what fails", async () => {
  const encryption = keyRing("k");
  await using guarded = await startGuardedLine({ encryption });
  const { line, outbox } = guarded;
  let works = false;
  await guarded.startWorker(
    ["notes"],
    (worker) => {
      worker.handleInTransaction(note, async (job, tx) => {
        if (!works && job.payload.n === 1) throw new Error("not yet");
        await write(tx, `${job.payload.n} ${job.payload.text === canary}`);
      });
      worker.on(noted, { subscription: "readers" }, (event, tx) =>
        write(tx, `event ${event.payload.text === canary}`),
      );
    },
    { encryption },
  );
  guarded.startRelay();

  const [id] = await line.transaction(async (tx) => {
    const { jobId } = await outbox.enqueue(tx, note, { n: 1, text: canary });
    const more = await outbox.enqueueMany(tx, note, [
      { payload: { n: 2, text: canary }, options: { idempotencyKey: "a" } },
      { payload: { n: 3, text: canary }, options: { idempotencyKey: "a" } },
      { payload: { n: 4, text: canary }, options: { delayMs: 1 } },
    ]);
    expect(more.map(({ deduplicated }) => deduplicated)).toEqual([false, true, false]);
    await outbox.publish(tx, noted, { text: canary });
    return [jobId];
  });

  await eventually(async () =>
    expect([...(await guarded.ran())].sort()).toEqual(["2 true", "4 true", "event true"]),
  );
  const dead = await guarded.take("notes.dlq");
  expect(dead.content.toString()).toMatch(/^\{"waybill-sealed":"1:k:/);
  expect(JSON.stringify([dead.content.toString("latin1"), dead.properties])).not.toContain(canary);
  expect(await contents(line.database)).not.toContain(canary);

  works = true;
  await line.jobs.retry(id ?? "");

  await eventually(async () => expect(await guarded.ran()).toContain("1 true"));
  expect(await contents(line.database)).not.toContain(canary);
  expect(guarded.logged.join()).not.toContain(canary);
});

test("S8: a worker with a wrong key, or none, dead-letters the job without running it, and it runs once the key is there", async () => {
  const encryption = keyRing("k");
  await using guarded = await startGuardedLine({ encryption });
  guarded.startRelay();
  const enqueue = (): Promise<string> =>
    guarded.line.transaction(
      async (tx) => (await guarded.outbox.enqueue(tx, note, { n: 1, text: canary })).jobId,
    );
  const ids: string[] = [];
  for (const [n, wrong] of [keyRing("k"), keyRing("another"), undefined].entries()) {
    const worker = await guarded.startWorker(["notes"], writesTexts, { encryption: wrong });
    ids.push(await enqueue());
    await eventually(async () => expect(await guarded.refused()).toHaveLength(n + 1));
    await worker.stop();
  }

  const refused = await guarded.refused();
  const why = 'Cannot accept the payload of job "note.write": payload: ';
  expect(refused.map(({ failure_class, message }) => [failure_class, message])).toEqual([
    ["validation", expect.stringContaining(`${why}does not open with the key "k"`)],
    ["validation", expect.stringContaining(`${why}is encrypted with the key "k", which`)],
    ["validation", expect.stringContaining(`${why}is encrypted with the key "k", and`)],
  ]);
  expect(await guarded.ran()).toEqual([]);
  const shown = `${await contents(guarded.line.database)}${guarded.logged.join()}`;
  expect(shown).not.toContain(canary);
  const secret = encryption.key("k")?.export() as Buffer;
  for (const form of ["base64", "hex"] as const) {
    expect(shown).not.toContain(secret.toString(form).slice(0, 12));
  }

  await guarded.startWorker(["notes"], writesTexts, { encryption });
  for (const id of ids) await guarded.line.jobs.retry(id);

  await eventually(async () => expect(await guarded.ran()).toEqual(Array(3).fill(canary)));
});

test("S8: an encrypted payload under another job's id is not opened", async () => {
  const encryption = keyRing("k");
  await using guarded = await startGuardedLine({ encryption });
  guarded.startRelay();
  const first = await guarded.startWorker(["notes"], writesTexts, { encryption });
  await first.stop();
  await guarded.enqueue(1);
  const real = await guarded.take("notes");

  await guarded.put("notes", {
    ...real,
    properties: { ...real.properties, messageId: "0193b0d2-7f6e-7c8a-9d4e-0f1a2b3c4d5e" },
  });
  await guarded.startWorker(["notes"], writesTexts, { encryption });

  await eventually(async () => expect(await guarded.refused()).toHaveLength(1));
  expect(await guarded.ran()).toEqual([]);
});

test("S8: schema and upcasters see the open payload, and plain payloads run beside it", async () => {
  const encryption = keyRing("k");
  await using guarded = await startGuardedLine({ encryption });
  const second = defineJob({
    name: note.name,
    queue: "notes",
    version: 2,
    payload: z.object({ number: z.int() }),
    upcasters: { 1: (v1) => ({ number: (v1 as { n: number }).n }) },
  });
  await guarded.startWorker(
    ["notes"],
    (worker) => worker.handleInTransaction(second, (job, tx) => write(tx, job.payload.number)),
    { encryption },
  );
  guarded.startRelay();

  await guarded.enqueue(7);
  await eventually(async () => expect(await guarded.ran()).toEqual(["7"]));
  await guarded.line.transaction((tx) => guarded.line.outbox.enqueue(tx, note, { n: 8 }));

  await eventually(async () => expect(await guarded.ran()).toEqual(["7", "8"]));
});

test("S8: a job that waits gets a new payload with the keys, and without them none", async () => {
  const encryption = keyRing("k");
  await using guarded = await startGuardedLine({ encryption });
  const { line, outbox } = guarded;
  const delayed = (): Promise<string> =>
    line.transaction(
      async (tx) => (await outbox.enqueue(tx, note, { n: 1 }, { delayMs: 3_600_000 })).jobId,
    );
  const [checked, unchecked] = [await delayed(), await delayed()];
  const jobs = createJobs({ database: pgDatabase<PoolClient>(line.database.pool), encryption });

  await expect(line.jobs.edit(checked, { job: note, payload: { n: 2 } })).rejects.toThrow(
    /encryption: is needed: the payload of job .* is encrypted; give createJobs the keys/,
  );
  await jobs.edit(checked, { job: note, payload: { n: 2, text: canary } });
  await jobs.edit(unchecked, { unchecked: true, payload: { n: 3 } });
  await jobs.reprioritise(checked, 5);
  expect(await contents(line.database)).not.toContain(canary);
  await guarded.startWorker(["notes"], writesNotes, { encryption });
  guarded.startRelay();
  for (const id of [checked, unchecked]) await jobs.release(id);

  await eventually(async () => expect([...(await guarded.ran())].sort()).toEqual(["2", "3"]));
});

test("S8: what encryption does not go with is refused before anything is written", async () => {
  await using guarded = await startGuardedLine({ encryption: keyRing("k") });
  const { line, outbox } = guarded;

  await line.transaction(async (tx) => {
    await expect(
      outbox.enqueue(tx, note, { n: 1 }, { idempotencyKey: "a", debounceMs: 1_000 }),
    ).rejects.toThrow(/debounceMs: does not go with the outbox's encryption/);
    await expect(
      outbox.enqueue(tx, note, { n: 1 }, { route: { exchange: "", routingKey: "q" } }),
    ).rejects.toThrow(/route: does not go with the outbox's encryption/);
  });

  expect(await line.database.rows("select from waybill.outbox")).toEqual([]);
  const database = pgDatabase<PoolClient>(line.database.pool);
  for (const create of [createOutbox, createJobs]) {
    expect(() => create({ database, encryption: "secret" as never })).toThrow(
      /encryption: expected a ring of keys made by createKeyRing/,
    );
  }
});

test("S8: an application's tests read and run what its outbox encrypts, with the keys", async () => {
  const encryption = keyRing("k");
  await using guarded = await startGuardedLine({ encryption });
  const { line, outbox } = guarded;
  const database = pgDatabase<PoolClient>(line.database.pool);
  const worker = createWorker<PoolClient>({
    database,
    databaseUrl: line.database.url,
    broker: { url: line.vhost.url },
    queues: { notes: { concurrency: 1 } },
    encryption,
  });
  writesNotes(worker);

  await line.transaction(async (tx) => {
    await outbox.enqueue(tx, note, { n: 5 });

    await expectEnqueued(tx, note, { database, encryption, payload: { n: 5 } });
    await expect(enqueuedJobs(tx, { database })).rejects.toThrow(
      /encryption: the payload of "note.write" is encrypted with the key "k"/,
    );
    const { succeeded } = await drainJobs(worker, { tx });
    expect(succeeded.map(({ payload }) => payload)).toEqual([{ n: 5 }]);
  });

  expect(await guarded.ran()).toEqual(["5"]);
});
