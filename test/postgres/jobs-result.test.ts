import {
  ConfigError,
  defineJob,
  JobCancelledError,
  JobFailedError,
  newJobId,
  PayloadError,
  PayloadUnavailableError,
} from "@waybill/core";
import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { setFailed, setInbox, startApplication } from "./application.ts";
import { enqueue, listeners, succeed, watchedJobs } from "./watching.ts";

const counted = defineJob({
  name: "test.any",
  payload: z.unknown(),
  result: z.object({ words: z.number() }),
});

test("a result comes when the job has succeeded, as it was stored", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const [waiting, before, without] = [await enqueue(app), await enqueue(app), await enqueue(app)];
  await succeed(app, before, '{"words":[1,2,null]}');
  await succeed(app, without);
  const result = jobs.result(waiting);
  await eventually(async () => (await app.count("waybill.watch")) === 1);
  await succeed(app, waiting, '"done"');

  expect(await result).toBe("done");
  expect(await jobs.result(before)).toEqual({ words: [1, 2, null] });
  expect(await jobs.result(without)).toBeUndefined();
  expect(await app.count("waybill.watch")).toBe(0);
});

test("with its definition a result is validated and typed", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const [good, bad, none] = [await enqueue(app), await enqueue(app), await enqueue(app)];
  await succeed(app, good, '{"words":7}');
  await succeed(app, bad, '{"words":"secret"}');
  await succeed(app, none);

  const result = await jobs.result(good, { job: counted });
  expectTypeOf(result).toEqualTypeOf<{ words: number }>();
  expect(result).toEqual({ words: 7 });
  const refused = await jobs.result(bad, { job: counted }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(PayloadError);
  expect(refused).toMatchObject({ issues: [{ path: "(result).words" }] });
  expect(String(refused)).not.toContain("secret");
  const gone = await jobs.result(none, { job: counted }).catch((error: unknown) => error);
  expect(gone).toBeInstanceOf(PayloadUnavailableError);
  expect(gone).toMatchObject({ message: expect.stringMatching(/past its retention/) });
});

test("a definition of another job is refused before the job has ended", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);
  const other = defineJob({ name: "test.other", payload: z.unknown() });

  const refused = jobs.result(id, { job: other });

  await expect(refused).rejects.toBeInstanceOf(ConfigError);
  await expect(refused).rejects.toThrow(/definition of "test.other", but job .* is "test.any"/);
});

test("a failed job's result is its failure, and a cancelled one's says by whom and why", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const [failed, cancelled, expired] = [await enqueue(app), await enqueue(app), await enqueue(app)];
  const results = Promise.allSettled([failed, cancelled, expired].map((id) => jobs.result(id)));
  await eventually(async () => (await app.count("waybill.watch")) === 3);
  await setFailed(app, failed);
  await jobs.cancel(cancelled, { actor: "anna", reason: "not wanted" });
  await setInbox(app, expired, "cancelled");
  await app.pool.query("update waybill.inbox set cancel_requested_at = now() where id = $1", [
    expired,
  ]);

  const [one, two, three] = (await results).map((settled) =>
    settled.status === "rejected" ? (settled.reason as unknown) : undefined,
  );
  expect(one).toBeInstanceOf(JobFailedError);
  expect(one).toMatchObject({
    code: "WAYBILL_JOB_FAILED",
    jobId: failed,
    failureClass: "unknown",
    failureMessage: "no luck",
    message: expect.stringMatching(/no luck/),
  });
  expect(two).toBeInstanceOf(JobCancelledError);
  expect(two).toMatchObject({ message: expect.stringMatching(/by anna, "not wanted"/) });
  expect(three).toMatchObject({ message: expect.stringMatching(/by waybill, "expired/) });
});

test("a wait that is too long, or aborted, ends and leaves the job as it is", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);
  const stop = new AbortController();

  const late = await jobs.result(id, { timeoutMs: 1 }).catch((error: unknown) => error);
  expect(late).toBeInstanceOf(DOMException);
  expect(late).toMatchObject({
    name: "TimeoutError",
    message: expect.stringMatching(/within 1 ms: .* The job goes on/),
  });
  const aborted = jobs
    .result(id, { signal: stop.signal, timeoutMs: 1_000_000 })
    .catch((error: unknown) => error);
  await eventually(async () => (await app.count("waybill.watch")) === 1);
  stop.abort(new Error("not needed"));

  expect(await aborted).toMatchObject({ message: "not needed" });
  expect((await jobs.get(id)).state).toBe("queued");
  await eventually(async () => (await app.count("waybill.watch")) === 0);
  await eventually(async () => (await listeners(app)).length === 0);
});

test("a delivery's result is that of its queue", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = newJobId();
  for (const queue of ["billing", "mails"]) {
    await setInbox(app, id, "succeeded", { queue });
    await app.pool.query("insert into waybill.result (id, queue, result) values ($1, $2, $3)", [
      id,
      queue,
      JSON.stringify(queue),
    ]);
  }

  await expect(jobs.result(id)).rejects.toBeInstanceOf(ConfigError);
  expect(await jobs.result(id, { queue: "mails" })).toBe("mails");
});
