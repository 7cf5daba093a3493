import { defineJob, PayloadError } from "@waybill/core";
import { createJobs, pgDatabase } from "@waybill/postgres";
import type { Progress } from "@waybill/worker";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp, untilAborted } from "./support/start-app.ts";

const job = defineJob({ name: "report", queue: "work", payload: z.object({}) });
const stuck = defineJob({ name: "stuck", queue: "work", payload: z.looseObject({}) });

const progressOf = async (app: App, id: string): Promise<unknown> => {
  const [row] = await app.database.rows(
    "select progress_stage as stage, progress_done::integer as done, progress_total::integer as total, progress_percent as percent, stale from waybill.job where id = $1",
    [id],
  );
  return row;
};

test("progress can be seen while the job runs, with a percentage only where the total is known", async () => {
  await using app = await startApp();
  const { promise: goOn, resolve } = Promise.withResolvers<void>();
  const { promise: finish, resolve: end } = Promise.withResolvers<void>();
  await app.startWorker((worker) =>
    worker.handle(job, async (context) => {
      context.reportProgress({ stage: "reading", done: 7 });
      await goOn;
      context.reportProgress({ stage: "writing", done: 1, total: 3 });
      await finish;
      context.reportProgress({ done: 3 });
    }),
  );
  const id = await app.enqueue("report", {});
  await app.courier.round();

  await eventually(async () =>
    expect(await progressOf(app, id)).toEqual({
      stage: "reading",
      done: 7,
      total: null,
      percent: null,
      stale: false,
    }),
  );
  resolve();
  await eventually(async () =>
    expect(await progressOf(app, id)).toMatchObject({ stage: "writing", done: 1, percent: 33 }),
  );
  end();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(await progressOf(app, id)).toMatchObject({ stage: "writing", done: 3, percent: 100 });
});

/** Counts what is written of progress in the table write_log. */
async function logWrites(app: App): Promise<void> {
  await app.database.pool.query("create table write_log (at timestamptz)");
  await app.database.pool.query(
    `create function log_write() returns trigger language plpgsql as
     $$ begin insert into public.write_log values (now()); return null; end $$`,
  );
  await app.database.pool.query(
    "create trigger log_write after insert or update on waybill.progress for each row execute function log_write()",
  );
}

test("a handler that reports all the time costs few writes, and the last report is there at the end", async () => {
  await using app = await startApp();
  await logWrites(app);
  await app.startWorker((worker) =>
    worker.handle(job, async (context) => {
      for (let done = 1; done <= 20_000; done += 1) {
        context.reportProgress({ stage: "all", done });
        if (done % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    }),
  );

  const id = await app.enqueue("report", {});
  await app.courier.round();

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(await progressOf(app, id)).toMatchObject({ done: 20_000 });
  const writes = await app.database.rows("select from write_log");
  expect(writes.length).toBeGreaterThan(0);
  expect(writes.length).toBeLessThan(200);
});

test.each<[string, Progress, RegExp]>([
  ["done above the total", { done: 3, total: 2 }, /\(progress\)\.done: is 3, above the total of 2/],
  ["a fraction", { done: 1.5 }, /\(progress\)\.done: must be an integer/],
  ["a negative number", { done: -1 }, /\(progress\)\.done/],
  ["a stage without end", { stage: "x".repeat(201) }, /\(progress\)\.stage: has 201 characters/],
  ["a NUL character", { stage: "a\u0000b" }, /\(progress\)\.stage: holds a NUL/],
  ["an unknown word", { percent: 3 } as Progress, /\(progress\)\.percent: is not known/],
])(
  "progress with %s is refused in the handler, and nothing is written",
  async (_what, bad, says) => {
    await using app = await startApp();
    const errors: unknown[] = [];
    await app.startWorker((worker) =>
      worker.handle(job, (context) => {
        try {
          context.reportProgress(bad);
        } catch (error) {
          errors.push(error);
        }
      }),
    );

    const id = await app.send("report", {});

    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
    expect(errors).toEqual([expect.any(PayloadError)]);
    expect((errors[0] as Error).message).toMatch(says);
    expect(await app.database.rows("select from waybill.progress")).toEqual([]);
  },
);

test("a handler that names a new stage in every step costs few writes, and the last stage is there at the end", async () => {
  await using app = await startApp();
  await logWrites(app);
  let tookMs = 0;
  await app.startWorker((worker) =>
    worker.handle(job, async (context) => {
      const startedAt = performance.now();
      for (let step = 1; step <= 1_000; step += 1) {
        context.reportProgress({ stage: `step ${step}` });
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      tookMs = performance.now() - startedAt;
    }),
  );
  const id = await app.enqueue("report", {});
  await app.courier.round();

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));

  expect(await progressOf(app, id)).toMatchObject({ stage: "step 1000" });
  const writes = await app.database.rows("select from write_log");
  // Five a second, the first and the last.
  expect(writes.length).toBeLessThanOrEqual(2 + Math.ceil(tookMs / 200));
});

test("progress that cannot be written fails no job", async () => {
  await using app = await startApp();
  await app.database.pool.query("alter table waybill.progress rename to progress_gone");
  await app.startWorker((worker) =>
    worker.handle(job, (context) => context.reportProgress({ done: 1 })),
  );

  const id = await app.send("report", {});

  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1 }),
  );
});

test("the progress of a job whose worker was killed is shown as stale until another one takes over", async () => {
  await using app = await startApp();
  const running = await app.startWorkerProcess({ LEASE_MS: "1500", STUCK: "1" });
  const id = await app.enqueue("stuck", {});
  await app.courier.round();
  await eventually(async () => expect(await progressOf(app, id)).toMatchObject({ done: 1 }));
  const jobs = createJobs({ database: pgDatabase(app.database.pool) });

  running.kill("SIGKILL");

  await eventually(async () => expect((await jobs.get(id)).stale).toBe(true));
  await app.startWorker((worker) =>
    worker.handle(stuck, async (context) => {
      context.reportProgress({ done: 2 });
      await untilAborted(context.signal);
    }),
  );
  await eventually(async () => {
    expect(await progressOf(app, id)).toMatchObject({ done: 2, stale: false });
  });
});
