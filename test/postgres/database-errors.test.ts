import {
  DatabaseUnavailableError,
  SchemaVersionError,
  TransactionMisusedError,
} from "@waybill/core";
import { createOutbox, migrate, pgDatabase, sqlStateOf } from "@waybill/postgres";
import { expect, test } from "vitest";
import { createPool, createTestDatabase, eventually, startProxy } from "../support/index.ts";
import { anyJob, startApplication } from "./application.ts";

const errorOf = (failing: Promise<unknown>): Promise<unknown> =>
  failing.then(
    () => undefined,
    (error: unknown) => error,
  );

test("A5: a serialization failure passes through unchanged, and the transaction can be run again", async () => {
  await using app = await startApplication();
  await app.pool.query("insert into orders (note) values ('a')");
  const { promise: bothRead, resolve } = Promise.withResolvers<void>();
  let readers = 0;
  const run = (note: string): Promise<unknown> =>
    app.database.transaction(async (tx) => {
      await tx.query("set transaction isolation level repeatable read");
      await tx.query("select * from orders");
      readers += 1;
      if (readers === 2) resolve();
      await bothRead;
      await app.outbox.enqueue(tx, anyJob, note);
      await tx.query("update orders set note = $1", [note]);
    });

  const errors = await Promise.all([errorOf(run("b")), errorOf(run("c"))]);

  const failed = errors.filter((error) => error !== undefined);
  expect(failed).toHaveLength(1);
  expect(failed[0]).toMatchObject({ code: "40001" });
  expect(await app.count("waybill.outbox")).toBe(1);
  await run("again");
  expect(await app.count("waybill.outbox")).toBe(2);
});

test("A5: a deadlock passes through unchanged", async () => {
  await using app = await startApplication();
  await app.pool.query("insert into orders (note) values ('a'), ('b')");
  const { promise: bothHold, resolve } = Promise.withResolvers<void>();
  let holders = 0;
  const cross = (first: number, second: number): Promise<unknown> =>
    app.database.transaction(async (tx) => {
      await app.outbox.enqueue(tx, anyJob, first);
      await tx.query("update orders set note = 'x' where id = $1", [first]);
      holders += 1;
      if (holders === 2) resolve();
      await bothHold;
      await tx.query("update orders set note = 'x' where id = $1", [second]);
    });

  const errors = await Promise.all([errorOf(cross(1, 2)), errorOf(cross(2, 1))]);

  expect(errors.filter((error) => error !== undefined)).toMatchObject([{ code: "40P01" }]);
  expect(await app.count("waybill.outbox")).toBe(1);
});

test("A5: producers in parallel that also write in one order never deadlock on the outbox", async () => {
  await using app = await startApplication();
  await app.pool.query("insert into orders (note) select 'a' from generate_series(1, 5)");

  await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      app.database.transaction(async (tx) => {
        if (n % 2 === 0) await app.outbox.enqueue(tx, anyJob, n, { idempotencyKey: `k${n}` });
        await tx.query("update orders set note = 'x' where id = $1", [(n % 5) + 1]);
        if (n % 2 === 1) await app.outbox.enqueue(tx, anyJob, n, { orderingKey: "o" });
      }),
    ),
  );

  expect(await app.count("waybill.outbox")).toBe(100);
});

test("A4: an enqueue in a transaction that has failed before says so", async () => {
  await using app = await startApplication();

  const error = await errorOf(
    app.database.transaction(async (tx) => {
      await tx.query("select 1 / 0").catch(() => undefined);
      await app.outbox.enqueue(tx, anyJob, 1);
    }),
  );

  expect(error).toBeInstanceOf(TransactionMisusedError);
  expect((error as Error).message).toContain("an earlier statement of this transaction failed");
  expect(sqlStateOf(error)).toBe("25P02");
});

test("A7: a read-only server refuses an enqueue and a migration by name", async () => {
  await using app = await startApplication();
  await app.pool.query(`alter database "${app.db.name}" set default_transaction_read_only = on`);
  const pool = createPool(app.db.url);
  const outbox = createOutbox({ database: pgDatabase(pool) });

  const enqueued = await errorOf(
    pgDatabase(pool).transaction((tx) => outbox.enqueue(tx, anyJob, 1)),
  );
  const migrated = await errorOf(migrate(pool, { schema: "other" }));

  expect(enqueued).toBeInstanceOf(DatabaseUnavailableError);
  expect((enqueued as Error).message).toMatch(/Cannot enqueue: the server is read-only/);
  expect(migrated).toBeInstanceOf(DatabaseUnavailableError);
  expect((migrated as Error).message).toMatch(/Cannot migrate: the server is read-only/);
  await pool.end();
});

test("A7: an enqueue that gets no connection of an exhausted pool fails in the pool's time, and no job comes later", async () => {
  await using app = await startApplication();
  const pool = createPool(app.db.url, 2);
  const outbox = createOutbox({ database: pgDatabase(pool) });
  const taken = [await pool.connect(), await pool.connect()];
  pool.options.connectionTimeoutMillis = 50;

  const alone = await errorOf(outbox.enqueue(pool, anyJob, 1, { autocommit: true }));
  const within = await errorOf(pgDatabase(pool).transaction((tx) => outbox.enqueue(tx, anyJob, 1)));
  for (const client of taken) client.release();
  const { jobId } = await outbox.enqueue(pool, anyJob, 2, { autocommit: true });

  expect(alone).toBeInstanceOf(DatabaseUnavailableError);
  expect((alone as Error).message).toMatch(/pool/);
  // The pool is the caller's, and so is its error.
  expect((within as Error).message).toMatch(/timeout exceeded when trying to connect/);
  expect(await app.db.rows("select id from waybill.outbox")).toEqual([{ id: jobId }]);
  await pool.end();
});

test("an enqueue without Waybill's tables says how to make them", async () => {
  await using db = await createTestDatabase();
  const database = pgDatabase(db.pool);
  const outbox = createOutbox({ database, schema: "elsewhere" });

  const error = await errorOf(database.transaction((tx) => outbox.enqueue(tx, anyJob, 1)));

  expect(error).toBeInstanceOf(SchemaVersionError);
  expect((error as Error).message).toMatch(
    /schema "elsewhere": it holds no Waybill tables\. Run "waybill migrate"/,
  );
});

test("A2: a COMMIT whose reply is lost rejects; run again with its key, the job exists once", async () => {
  await using app = await startApplication();
  await using proxy = await startProxy(app.db.url);
  const pool = createPool(proxy.url(app.db.url), 2);
  const database = pgDatabase(pool);

  for (let n = 0; n < 20; n += 1) {
    const run = (): Promise<unknown> =>
      database.transaction(async (tx) => {
        await tx.query(
          "insert into orders (note) select $1 where not exists (select from orders where note = $1)",
          [`${n}`],
        );
        return app.outbox.enqueue(tx, anyJob, n, { idempotencyKey: `order ${n}` });
      });
    proxy.cutReply("COMMIT");

    await expect(run()).rejects.toThrow(/terminated|reset|ended|closed|ECONNRESET|hang up/i);
    // The server had done it: nothing is left open, and the second run finds the first one's job.
    await eventually(async () => (await app.count(`orders where note = '${n}'`)) === 1);
    expect(await run()).toMatchObject({ deduplicated: true });
  }

  expect(proxy.triggeredCount).toBe(20);
  expect(await app.count("waybill.outbox")).toBe(20);
  expect(await app.count("orders")).toBe(20);
  await pool.end();
});

test("A2: a COMMIT that never arrives leaves nothing, and run again it exists once", async () => {
  await using app = await startApplication();
  await using proxy = await startProxy(app.db.url);
  const pool = createPool(proxy.url(app.db.url), 2);
  const database = pgDatabase(pool);
  const run = (): Promise<{ deduplicated: boolean }> =>
    database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 1, { idempotencyKey: "k" }));
  proxy.cutBefore("COMMIT");

  await expect(run()).rejects.toThrow(/terminated|reset|ended|closed|ECONNRESET|hang up/i);

  expect(await run()).toMatchObject({ deduplicated: false });
  expect(await app.count("waybill.outbox")).toBe(1);
  await pool.end();
});

test("A2: an autocommit enqueue whose reply is lost says that it cannot tell, with the job's id", async () => {
  await using app = await startApplication();
  await using proxy = await startProxy(app.db.url);
  const pool = createPool(proxy.url(app.db.url), 1);
  proxy.cutReply("waybill.enqueue");

  const error = await errorOf(app.outbox.enqueue(pool, anyJob, 1, { autocommit: true }));

  expect(error).toBeInstanceOf(DatabaseUnavailableError);
  const [, jobId = ""] =
    /Cannot tell whether job (\S+) was enqueued/.exec((error as Error).message) ?? [];
  const job = await eventually(() =>
    app.jobs
      .get(jobId)
      .catch(() => undefined)
      .then((found) => found ?? false),
  );
  expect(job.payload).toBe("1");
  await pool.end();
});

test("A7: a database that cannot be reached, or refuses the login, is named without its password", async () => {
  const unreachable = createPool("postgres://app:geheim@127.0.0.1:1/none");
  const outbox = createOutbox({ database: pgDatabase(unreachable) });

  const error = await errorOf(outbox.enqueue(unreachable, anyJob, 1, { autocommit: true }));

  expect(error).toBeInstanceOf(DatabaseUnavailableError);
  expect((error as Error).message).toMatch(/PostgreSQL cannot be reached \(ECONNREFUSED\)/);
  expect((error as Error).message).not.toContain("geheim");
  await unreachable.end();
});
