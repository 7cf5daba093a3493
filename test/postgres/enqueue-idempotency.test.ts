import { defineJob } from "@waybill/core";
import { statementsFor } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";
import { anyJob, setInbox, startApplication } from "./application.ts";

const key = { idempotencyKey: "order-7" };

test("a taken key gives the first job's id back and writes nothing", async () => {
  await using app = await startApplication();
  const other = defineJob({ name: "test.other", queue: "tests", payload: z.unknown() });

  const [first, second, elsewhere] = await app.database.transaction(async (tx) => [
    await app.outbox.enqueue(tx, anyJob, 1, key),
    await app.outbox.enqueue(tx, anyJob, 2, key),
    await app.outbox.enqueue(tx, other, 3, key),
  ]);
  const later = await app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 4, key));

  expect(second).toEqual({ jobId: first?.jobId, deduplicated: true });
  expect(later).toEqual({ jobId: first?.jobId, deduplicated: true });
  expect(elsewhere?.deduplicated).toBe(false);
  expect(await app.payloads()).toEqual(["1", "3"]);
});

test("a key for a time is free again after its time", async () => {
  await using app = await startApplication();
  const first = await app.database.transaction((tx) =>
    app.outbox.enqueue(tx, anyJob, 1, { ...key, idempotencyTtlMs: 3_600_000 }),
  );
  await app.pool.query("update waybill.idempotency_key set expires_at = now() - interval '1 ms'");

  const second = await app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 2, key));
  const third = await app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 3, key));

  expect(second.deduplicated).toBe(false);
  expect(second.jobId).not.toBe(first.jobId);
  expect(third).toEqual({ jobId: second.jobId, deduplicated: true });
});

test("a key until the end is taken while its job waits or runs, and free once it has ended", async () => {
  await using app = await startApplication();
  const options = { ...key, idempotencyMode: "until_end" } as const;
  const enqueue = (): Promise<{ jobId: string; deduplicated: boolean }> =>
    app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 1, options));
  const first = await enqueue();

  for (const state of ["running", "retry_waiting"]) {
    await setInbox(app, first.jobId, state);
    expect(await enqueue()).toEqual({ jobId: first.jobId, deduplicated: true });
  }
  for (const state of ["succeeded", "failed", "cancelled"]) {
    const before = await enqueue();
    await setInbox(app, before.jobId, state);
    const after = await enqueue();
    expect(after.deduplicated).toBe(false);
    expect(after.jobId).not.toBe(before.jobId);
  }
});

test("a key until the start is taken until its job is claimed, and free while it runs or waits for a retry", async () => {
  await using app = await startApplication();
  const options = { ...key, idempotencyMode: "until_start" } as const;
  const enqueue = (delayMs?: number): Promise<{ jobId: string; deduplicated: boolean }> =>
    app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 1, { ...options, delayMs }));
  const first = await enqueue(60_000);
  expect(await enqueue()).toEqual({ jobId: first.jobId, deduplicated: true });
  await app.pool.query("update waybill.timer set fire_at = now()");
  await app.pool.query(statementsFor().fire_timers.text, [1]);

  for (const state of ["running", "retry_waiting", "succeeded", "failed", "cancelled"]) {
    const before = await enqueue();
    expect(await enqueue()).toEqual({ jobId: before.jobId, deduplicated: true });
    await setInbox(app, before.jobId, state);
    const after = await enqueue();
    expect(after.deduplicated).toBe(false);
    expect(after.jobId).not.toBe(before.jobId);
  }
});

test("a key until the start of an event or route is free once it is published", async () => {
  await using app = await startApplication();
  const options = {
    ...key,
    idempotencyMode: "until_start",
    route: { exchange: "e", routingKey: "k" },
  } as const;
  const enqueue = (): Promise<{ jobId: string; deduplicated: boolean }> =>
    app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 1, options));
  const first = await enqueue();
  expect(await enqueue()).toEqual({ jobId: first.jobId, deduplicated: true });

  await app.pool.query("update waybill.relay set snapshot = pg_current_snapshot()");

  expect((await enqueue()).deduplicated).toBe(false);
});

test("of keys without a time, the pruner deletes those that are free", async () => {
  await using app = await startApplication();
  for (const mode of ["until_start", "until_end"] as const) {
    for (const state of ["queued", "running", "failed"]) {
      const { jobId } = await app.database.transaction((tx) =>
        app.outbox.enqueue(tx, anyJob, 1, {
          idempotencyKey: `${mode} ${state}`,
          idempotencyMode: mode,
        }),
      );
      if (state !== "queued") await setInbox(app, jobId, state);
    }
  }

  await app.pool.query(statementsFor().prune_idempotency_keys.text, [100]);

  const left = await app.db.rows<{ key: string }>("select key from waybill.idempotency_key");
  expect(left.map((row) => row.key).toSorted()).toEqual([
    "until_end queued",
    "until_end running",
    "until_start queued",
  ]);
});

test("a delayed job holds its key until the end as well", async () => {
  await using app = await startApplication();
  const options = { ...key, idempotencyMode: "until_end", delayMs: 60_000 } as const;

  const first = await app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 1, options));
  const second = await app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 1, options));

  expect(second).toEqual({ jobId: first.jobId, deduplicated: true });
  expect(await app.count("waybill.timer")).toBe(1);
});

test.each(["for_a_time", "until_start", "until_end"] as const)(
  "callers that race for a key in mode %s enqueue one job and agree on it",
  async (idempotencyMode) => {
    await using app = await startApplication();

    for (let round = 0; round < 20; round += 1) {
      const options = { idempotencyKey: `k${round}`, idempotencyMode };
      const receipts = await Promise.all(
        Array.from({ length: 8 }, () =>
          app.database.transaction(async (tx) => {
            await tx.query("select 1");
            return app.outbox.enqueue(tx, anyJob, round, options);
          }),
        ),
      );

      expect(new Set(receipts.map((receipt) => receipt.jobId)).size).toBe(1);
      expect(receipts.filter((receipt) => !receipt.deduplicated)).toHaveLength(1);
    }

    expect(await app.count("waybill.outbox")).toBe(20);
  },
);

test("a key whose first transaction rolls back goes to the one that waited for it", async () => {
  await using app = await startApplication();
  const holding = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const first = app.database.transaction(async (tx) => {
    await app.outbox.enqueue(tx, anyJob, "first", key);
    holding.resolve();
    await release.promise;
    throw new Error("no");
  });
  await holding.promise;

  const second = app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, "second", key));
  release.resolve();

  await expect(first).rejects.toThrow("no");
  expect((await second).deduplicated).toBe(false);
  expect(await app.payloads()).toEqual(['"second"']);
});

test("bulk enqueues of the same keys in any order do not deadlock", async () => {
  await using app = await startApplication();
  const keys = Array.from({ length: 40 }, (_, n) => `k${n}`);
  const items = (names: readonly string[]): { payload: string; options: object }[] =>
    names.map((name) => ({ payload: name, options: { idempotencyKey: name } }));

  const runs = await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      app.database.transaction((tx) =>
        app.outbox.enqueueMany(tx, anyJob, items(n % 2 === 0 ? keys : keys.toReversed())),
      ),
    ),
  );

  expect(await app.count("waybill.outbox")).toBe(keys.length);
  const written = runs.flat().filter((receipt) => !receipt.deduplicated);
  expect(written).toHaveLength(keys.length);
});

test("a key twice in one bulk enqueue is one job", async () => {
  await using app = await startApplication();

  const receipts = await app.database.transaction((tx) =>
    app.outbox.enqueueMany(tx, anyJob, [
      { payload: "a", options: key },
      { payload: "b" },
      { payload: "c", options: key },
    ]),
  );

  expect(receipts.map((receipt) => receipt.deduplicated)).toEqual([false, false, true]);
  expect(receipts[2]?.jobId).toBe(receipts[0]?.jobId);
  expect(await app.payloads()).toEqual(['"a"', '"b"']);
});
