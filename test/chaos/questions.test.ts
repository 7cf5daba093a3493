/** The questions are worth as much as what they find: each fault is planted, and has to be named. */

import { createOutbox, pgDatabase } from "@waybill/postgres";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { createMigratedDatabase } from "../support/index.ts";
import { askLedger, loadFiles } from "./books.ts";
import { findSecret } from "./canary.ts";
import { historyOf } from "./history.ts";
import { call, transfer } from "./jobs.ts";

const payload = { ms: 0, failures: 0, children: 0, secret: "canary" };

async function startLedger() {
  await using undo = new AsyncDisposableStack();
  const database = undo.use(await createMigratedDatabase());
  await database.pool.query(await readFile(new URL("ledger.sql", import.meta.url), "utf8"));
  const directory = await mkdtemp(join(tmpdir(), "waybill-chaos-test-"));
  undo.defer(() => rm(directory, { recursive: true, force: true }));
  const layer = pgDatabase<PoolClient>(database.pool);
  const outbox = createOutbox({ database: layer });
  const enqueue = (job: typeof transfer | typeof call): Promise<string> =>
    layer.transaction(async (tx) => (await outbox.enqueue(tx, job, payload)).jobId);
  const end = async (id: string, queue: string, state = "succeeded"): Promise<void> => {
    await database.rows(
      `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, finished_at)
       values ($1, $2, 'chaos', $3, 1, 1, now())`,
      [id, queue, state],
    );
  };
  const owned = undo.move();
  return {
    database,
    directory,
    enqueue,
    end,
    business: (id: string, kind: string, queue: string) =>
      database.rows("insert into business values ($1, $2, $3, 'batch')", [id, queue, kind]),
    effect: (id: string) =>
      database.rows("insert into effect values ($1, 'ledger', 1, 'worker-1')", [id]),
    write: (name: string, text: string) => writeFile(join(directory, name), text),
    /** What is found, as "fault count what". */
    async found(calls: ReadonlyMap<string, number> = new Map()) {
      await loadFiles(database.pool, directory, { runs: [], calls });
      const findings = await askLedger(database.pool);
      return findings.map(({ fault, count, what }) => `${fault} ${count} ${what}`);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test("a ledger in which everything has ended once has no answer to any question", async () => {
  await using ledger = await startLedger();
  const [job, plain] = [await ledger.enqueue(transfer), await ledger.enqueue(call)];
  await ledger.business(job, "transfer", "ledger");
  await ledger.business(plain, "call", "calls");
  await ledger.effect(job);
  await ledger.end(job, "ledger");
  await ledger.end(plain, "calls");
  await ledger.write("producer-1.ledger", `intent a ${job},${plain}\ncommitted a\n`);

  expect(await ledger.found(new Map([[plain, 2]]))).toEqual([]);
});

test("jobs that are lost in any way are found", async () => {
  await using ledger = await startLedger();
  const [gone, half, endless, idle] = [
    await ledger.enqueue(transfer),
    await ledger.enqueue(transfer),
    await ledger.enqueue(transfer),
    await ledger.enqueue(call),
  ];
  await ledger.business(half, "transfer", "ledger");
  await ledger.business(endless, "transfer", "ledger");
  await ledger.business(idle, "call", "calls");
  await ledger.end(half, "ledger");
  await ledger.end(endless, "ledger", "running");
  await ledger.end(idle, "calls");
  await ledger.effect(endless);
  await ledger.database.rows("delete from waybill.outbox where id = $1", [gone]);
  await ledger.write("producer-1.ledger", `intent a ${gone},${half}\ncommitted a\n`);

  expect(await ledger.found()).toEqual([
    "lost 1 committed, but not in the database",
    "lost 1 in the database without the rest of its transaction",
    "lost 1 committed without an end",
    "lost 1 succeeded without its effect",
    "lost 1 a plain job without its effect",
  ]);
});

test("jobs that are doubled in any way are found", async () => {
  await using ledger = await startLedger();
  const [twice, again] = [await ledger.enqueue(transfer), await ledger.enqueue(transfer)];
  for (const id of [twice, again]) {
    await ledger.business(id, "transfer", "ledger");
    await ledger.effect(id);
    await ledger.end(id, "ledger");
  }
  await ledger.effect(twice);
  for (const state of ["running", "succeeded"]) {
    await ledger.database.rows("update waybill.inbox set state = $2 where id = $1", [again, state]);
  }

  expect(await ledger.found()).toEqual([
    "doubled 1 an effect that is there more than once",
    "doubled 1 ended more than once",
    "doubled 1 left its end again",
  ]);
});

test("what was never committed is found wherever it is", async () => {
  await using ledger = await startLedger();
  const [ghost, undone] = [await ledger.enqueue(transfer), await ledger.enqueue(transfer)];
  await ledger.business(undone, "transfer", "ledger");
  await ledger.effect(undone);
  await ledger.end(undone, "ledger");
  await ledger.write("producer-1.ledger", `undone a ${undone}\nintent a ${ghost}\n`);

  expect(await ledger.found()).toEqual([
    "ghosts 1 rolled back, but in the database",
    "ghosts 1 in waybill.outbox, but never committed",
  ]);
  const history = await historyOf(ledger.database.pool, ledger.directory, undone);
  expect(history.join("\n")).toContain(`producer-1.ledger: undone a ${undone}`);
  expect(history.join("\n")).not.toContain(payload.secret);
});

test("what is left behind, and what ended as it should not, is found", async () => {
  await using ledger = await startLedger();
  const dead = await ledger.enqueue(transfer);
  await ledger.business(dead, "transfer", "ledger");
  await ledger.effect(dead);
  await ledger.end(dead, "ledger", "failed");
  await ledger.database.rows(
    `insert into waybill.timer (id, queue, fire_at, reason, type, payload)
     values ($1, 'ledger', now(), 'retry', 'chaos', '{}')`,
    [dead],
  );

  expect(await ledger.found()).toEqual([
    "broken 1 ended in another way than its kind does",
    "broken 1 a row in waybill.timer that nothing needs any more",
  ]);
});

test("the secret is found in files and in columns that are not the application's", async () => {
  await using ledger = await startLedger();
  const { pool } = ledger.database;
  await ledger.enqueue(transfer);
  expect(await findSecret(pool, ledger.directory, "canary")).toEqual([]);

  await ledger.write("relay-1.log", "cannot connect to amqp://chaos:canary@127.0.0.1\n");
  await pool.query(
    "insert into waybill.audit_log (actor, action, detail) values ('a', 'set', 'canary')",
  );

  const found = await findSecret(pool, ledger.directory, "canary");
  expect(found.map(({ what }) => what)).toEqual([
    "the secret of payloads and passwords in the file relay-1.log",
    "the secret of payloads and passwords in the column waybill.audit_log.detail",
  ]);
});
