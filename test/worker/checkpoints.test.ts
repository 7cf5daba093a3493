import { defineJob, PayloadError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { startApp, writeEffect } from "./support/start-app.ts";

const exported = defineJob({
  name: "export",
  queue: "work",
  payload: z.object({ rows: z.int() }),
  checkpoint: z.object({ done: z.int() }),
  result: z.object({ rows: z.int() }),
  retry: { maxAttempts: 5, initialDelayMs: 0 },
});

test("an attempt goes on where the last one has committed, and no effect is doubled", async () => {
  await using app = await startApp();
  app.courier.start({ hurry: true });
  const given: unknown[] = [];
  await app.startWorker((worker) =>
    worker.handle(exported, async (job) => {
      given.push(job.checkpoint);
      for (let done = job.checkpoint?.done ?? 0; done < job.payload.rows; done += 1) {
        await job.transaction(async (tx) => {
          await writeEffect(tx, job);
          await job.saveCheckpoint(tx, { done: done + 1 });
          // Rolls back the effect and its checkpoint together.
          if (done === job.attempt * 3) throw new Error("interrupted");
        });
      }
      return { rows: job.payload.rows };
    }),
  );

  const id = await app.enqueue("export", { rows: 8 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(given).toEqual([undefined, { done: 3 }, { done: 6 }]);
  expect(await app.effects(id)).toBe(8);
});

test("the ten newest checkpoints of a job are kept", async () => {
  await using app = await startApp();
  await app.startWorker((worker) =>
    worker.handle(exported, async (job) => {
      for (let done = 1; done <= 25; done += 1) {
        await job.transaction((tx) => job.saveCheckpoint(tx, { done }));
      }
      return { rows: 25 };
    }),
  );

  const id = await app.send("export", { rows: 25 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(
    await app.database.rows(
      "select number::integer, attempt, checkpoint::json -> 'done' as done from waybill.checkpoint order by number",
    ),
  ).toEqual(
    Array.from({ length: 10 }, (_, index) => ({
      number: 16 + index,
      attempt: 1,
      done: 16 + index,
    })),
  );
});

test.each([
  ["does not fit its schema", { done: "ten" }, /\(checkpoint\)\.done/],
  ["is larger than 64 KiB", { done: 1, more: "x".repeat(70_000) }, /\(checkpoint\).*65536/],
  ["is not JSON", { done: 1, at: new Date() }, /\(checkpoint\)\.at: is a Date/],
])(
  "a checkpoint that %s is refused in the handler, and nothing is written",
  async (_what, bad, says) => {
    await using app = await startApp();
    const errors: unknown[] = [];
    await app.startWorker((worker) =>
      worker.handle(exported, async (job) => {
        await job
          .transaction(async (tx) => {
            await writeEffect(tx, job);
            await job.saveCheckpoint(tx, bad as unknown as { done: number });
          })
          .catch((error: unknown) => errors.push(error));
        return { rows: 0 };
      }),
    );

    const id = await app.send("export", { rows: 1 });

    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
    expect(errors).toEqual([expect.any(PayloadError)]);
    expect((errors[0] as Error).message).toMatch(says);
    expect(await app.database.rows("select from waybill.checkpoint")).toEqual([]);
    expect(await app.effects(id)).toBe(0);
  },
);

test("a checkpoint cannot be saved outside a transaction, nor without a schema for it", async () => {
  await using app = await startApp();
  const plain = defineJob({ name: "plain", queue: "work", payload: z.object({}) });
  const errors: string[] = [];
  const keep = (error: unknown): void => void errors.push((error as Error).message);
  await app.startWorker((worker) => {
    worker.handle(exported, async (job) => {
      const client = await app.database.pool.connect();
      await job.saveCheckpoint(client, { done: 1 }).catch(keep);
      client.release();
      return { rows: 0 };
    });
    worker.handle(plain, (job) =>
      job.transaction((tx) => job.saveCheckpoint(tx, undefined as never).catch(keep)),
    );
  });

  await app.send("export", { rows: 1 });
  await eventually(() => errors.length === 1);
  await app.send("plain", {});
  await eventually(() => errors.length === 2);

  expect(errors[0]).toMatch(/Cannot save a checkpoint: .* not in a transaction/);
  expect(errors[1]).toMatch(/\(checkpoint\): has no schema; add `checkpoint`/);
  expect(await app.database.rows("select from waybill.checkpoint")).toEqual([]);
});

test("a stored checkpoint that does not fit a new schema fails the job for good, and nothing is begun again", async () => {
  await using app = await startApp();
  const id = await app.enqueue("export", { rows: 1 });
  await app.database.pool.query(
    "insert into waybill.checkpoint (id, queue, number, attempt, checkpoint) values ($1, 'work', 1, 1, '{\"offset\": 5}')",
    [id],
  );
  app.courier.start({ hurry: true });
  let runs = 0;
  await app.startWorker((worker) =>
    worker.handle(exported, () => {
      runs += 1;
      return { rows: 0 };
    }),
  );

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "failed" }));

  expect(runs).toBe(0);
  const [failure] = await app.database.rows("select failure_class, message from waybill.failure");
  expect(failure).toMatchObject({
    failure_class: "validation",
    message: expect.stringContaining("(stored checkpoint).done") as string,
  });
});

test("an attempt that has lost its job saves no checkpoint", async () => {
  await using app = await startApp();
  const outcomes: unknown[] = [];
  await app.startWorker((worker) =>
    worker.handle(exported, async (job) => {
      if (outcomes.length > 0) return { rows: 0 };
      await app.database.pool.query("update waybill.inbox set token = token + 1 where id = $1", [
        job.id,
      ]);
      await job
        .transaction(async (tx) => {
          await writeEffect(tx, job);
          await job.saveCheckpoint(tx, { done: 1 });
        })
        .catch((error: unknown) => outcomes.push((error as { code?: unknown }).code));
      return { rows: 0 };
    }),
  );

  const id = await app.send("export", { rows: 1 });

  await eventually(() => expect(outcomes).toEqual(["WAYBILL_JOB_LEASE_LOST"]));
  expect(await app.effects(id)).toBe(0);
  expect(await app.database.rows("select from waybill.checkpoint")).toEqual([]);
});

test("a checkpoint that cannot be read because its table is locked is waited for, and spends no attempt", async () => {
  await using app = await startApp();
  await app.startWorker((worker) => worker.handle(exported, (job) => ({ rows: job.payload.rows })));
  const client = await app.database.pool.connect();
  try {
    await client.query("begin");
    await client.query("lock table waybill.checkpoint in access exclusive mode");
    const id = await app.send("export", { rows: 1 });
    const waits = new Set<number>();
    // The worker's patience for one lock has an end; it asks again.
    await eventually(async () => {
      const rows = await app.database.rows<{ at: Date }>(
        "select query_start as at from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      for (const { at } of rows) waits.add(at.getTime());
      expect(waits.size).toBeGreaterThan(1);
    });
    await client.query("rollback");

    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
    expect(await app.inbox(id)).toMatchObject({ attempt: 1 });
    expect(await app.database.rows("select from waybill.failure")).toEqual([]);
  } finally {
    client.release(true);
  }
});
