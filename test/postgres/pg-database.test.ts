import { TransactionMisusedError } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { Pool } from "pg";
import { expect, test } from "vitest";
import { createTestDatabase, eventually } from "../support/index.ts";

const pidOf = async (tx: PoolClient): Promise<number> =>
  (await tx.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid ?? 0;

test("a transaction commits its result, or rolls back and rejects with the work's own error", async () => {
  await using db = await createTestDatabase();
  await db.pool.query("create table t (n int)");
  const database = pgDatabase(db.pool);
  const reason = new Error("no");

  const result = await database.transaction(async (tx) => {
    await tx.query("insert into t values (1)");
    return "done";
  });
  const failing = database.transaction(async (tx) => {
    await tx.query("insert into t values (2)");
    throw reason;
  });

  expect(result).toBe("done");
  await expect(failing).rejects.toBe(reason);
  expect(await db.rows("select n from t")).toEqual([{ n: 1 }]);
});

test.each([
  "commit",
  "ROLLBACK",
  " /* x */ end",
  "-- x\nabort",
  "begin",
  "start transaction",
  "prepare transaction 'x'",
])("the work cannot begin or end the transaction by %j", async (statement) => {
  await using db = await createTestDatabase({ poolSize: 1 });
  await db.pool.query("create table t (n int)");

  await pgDatabase(db.pool).transaction(async (tx) => {
    await tx.query("insert into t values (1)");
    await expect(tx.query(statement)).rejects.toBeInstanceOf(TransactionMisusedError);
    await expect(tx.query({ text: statement })).rejects.toBeInstanceOf(TransactionMisusedError);
    await tx.query("savepoint a");
    await tx.query("rollback to savepoint a");
    await tx.query("release a");
  });

  expect(await db.rows("select n from t")).toEqual([{ n: 1 }]);
});

test("work that ends the transaction in a way that is not seen is told at the end, and its client discarded", async () => {
  await using db = await createTestDatabase({ poolSize: 1 });
  const database = pgDatabase(db.pool);
  let first = 0;

  const misused = database.transaction(async (tx) => {
    first = await pidOf(tx);
    await tx.query("select 1; commit");
  });

  await expect(misused).rejects.toThrow(/the transaction was ended by the function that got it/);
  expect(await database.transaction(pidOf)).not.toBe(first);
});

test("A34: a statement's error that was swallowed is no success", async () => {
  await using db = await createTestDatabase({ poolSize: 1 });
  await db.pool.query("create table t (n int)");
  const database = pgDatabase(db.pool);

  for (let n = 0; n < 100; n += 1) {
    const swallowed = database.transaction(async (tx) => {
      await tx.query("insert into t values (1)");
      await tx.query("select 1 / 0").catch(() => undefined);
    });
    await expect(swallowed).rejects.toMatchObject({
      code: "WAYBILL_TRANSACTION_MISUSED",
      cause: { code: "22012" },
    });
    // The next user of the client meets no one else's transaction.
    expect(await database.transaction(async (tx) => tx.getTransactionStatus())).toBe("T");
    expect((await db.pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  }

  expect(await db.rows("select n from t")).toEqual([]);
});

test("a client is of no use once its transaction has ended, and cannot be released by the work", async () => {
  await using db = await createTestDatabase({ poolSize: 1 });
  const kept: PoolClient[] = [];

  await pgDatabase(db.pool).transaction(async (tx) => {
    kept.push(tx);
    expect(() => tx.release()).toThrow(TransactionMisusedError);
  });

  await expect(kept[0]?.query("select 1")).rejects.toThrow(/it has ended/);
});

test("A33, P6: a session that the server ends, idle or in a transaction, ends no process and no pool", async () => {
  await using db = await createTestDatabase({ poolSize: 3 });
  // A pool without any listener on its clients: the adapter alone has to keep the process alive.
  const pool = new Pool({ connectionString: db.url, max: 3 });
  pool.on("error", () => undefined);
  const database = pgDatabase(pool);

  for (let n = 0; n < 50; n += 1) {
    const ended = database.transaction(async (tx) => {
      const pid = await pidOf(tx);
      await db.pool.query("select pg_terminate_backend($1)", [pid]);
      if (n % 2 === 0) await eventually(async () => (await running(pid)) === 0);
      await tx.query("select 1");
    });
    await expect(ended).rejects.toThrow(/terminat|closed|not queryable|ECONNRESET/i);
    expect(await database.transaction(async () => "fine")).toBe("fine");
  }
  async function running(pid: number): Promise<number> {
    return (await db.rows("select from pg_stat_activity where pid = $1", [pid])).length;
  }

  expect(pool.totalCount).toBeLessThanOrEqual(3);
  await pool.end();
});

test("P6: idle_in_transaction_session_timeout during the work rejects the transaction and discards the client", async () => {
  await using db = await createTestDatabase();
  const pool = new Pool({ connectionString: db.url, max: 1 });
  const database = pgDatabase(pool);

  const timedOut = database.transaction(async (tx) => {
    await tx.query("set local idle_in_transaction_session_timeout = '50ms'");
    const pid = await pidOf(tx);
    await eventually(
      async () =>
        (await db.rows("select from pg_stat_activity where pid = $1", [pid])).length === 0,
    );
  });

  await expect(timedOut).rejects.toThrow(/terminat|closed|not queryable|idle-in-transaction/i);
  expect(await database.transaction(async (tx) => (await tx.query("select 1 as n")).rows)).toEqual([
    { n: 1 },
  ]);
  await pool.end();
});

test("no transaction stays open and nothing stays set on the session, whatever the work does", async () => {
  await using db = await createTestDatabase({ poolSize: 4 });
  const database = pgDatabase(db.pool);
  const settings =
    "select string_agg(name || '=' || setting, ',' order by name) as all from pg_settings where source = 'session'";
  const before = await db.rows(settings);

  await Promise.allSettled(
    Array.from({ length: 200 }, (_, n) =>
      database.transaction(async (tx) => {
        await tx.query("select txid_current()");
        if (n % 4 === 1) throw new Error("no");
        if (n % 4 === 2) await tx.query("select 1 / 0");
        if (n % 4 === 3) await tx.query("select 1 / 0").catch(() => undefined);
      }),
    ),
  );

  expect(await db.rows(settings)).toEqual(before);
  const open = await db.rows(
    "select state from pg_stat_activity where datname = current_database() and state like 'idle in%'",
  );
  expect(open).toEqual([]);
  expect(db.pool.waitingCount).toBe(0);
});

test("a pool that is ended or cannot connect rejects, and holds no client", async () => {
  const pool = new Pool({ connectionString: "postgres://127.0.0.1:1/none" });

  await expect(pgDatabase(pool).transaction(async () => 1)).rejects.toThrow("ECONNREFUSED");

  expect(pool.totalCount).toBe(0);
  await pool.end();
});
