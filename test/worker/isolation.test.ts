import {
  ConfigError,
  failureOf,
  JobCancelledError,
  JobTimeoutError,
  PayloadError,
  ShutdownError,
} from "@waybill/core";
import { expect, test } from "vitest";
import { loadPiscina } from "../../packages/worker/src/isolation/load-piscina.ts";
import { createHandler, createJob, errorOf, hasBegun } from "./support/isolated-handler.ts";

test("a handler in a thread gets the whole job, and its result comes back", async () => {
  await using handler = createHandler({});
  const job = createJob({ to: "ann@example.com", copies: [1, 2] });

  const result = await handler.start(job).result;

  const { id, name, payload, attempt, correlationId, headers, priority, checkpoint } = job;
  expect(result).toEqual({
    id,
    name,
    payload,
    attempt,
    correlationId,
    headers,
    priority,
    checkpoint,
    enqueuedAt: "1970-01-01T00:00:00.000Z",
    aborted: false,
    isMainThread: false,
  });
});

test("jobs that come one after another run in one thread", async () => {
  await using handler = createHandler({ exportName: "whichThread", threads: 4 });

  const first = await handler.start(createJob()).result;

  expect(await handler.start(createJob()).result).toBe(first);
});

test("the smallest heap is enough for a handler that does little", async () => {
  await using handler = createHandler({ exportName: "whichThread", heapMb: 32 });

  expect(await handler.start(createJob()).result).toBeTypeOf("number");
});

test("a result that is not JSON is refused by its path in a thread", async () => {
  await using handler = createHandler({ exportName: "giveDate" });

  const error = await errorOf(handler.start(createJob()).result);

  expect(error).toBeInstanceOf(PayloadError);
  expect((error as PayloadError).message).toBe(
    'Cannot accept the payload of job "test.job": (result).when: is a Date, which is not JSON; pass value.toISOString().',
  );
});

test("what an isolated handler returns is ignored where its job has no result", async () => {
  await using handler = createHandler({ exportName: "giveDate", wantsResult: false });

  expect(await handler.start(createJob()).result).toBe(undefined);
});

test("a payload that cannot be copied fails its job alone, and is not quoted", async () => {
  await using handler = createHandler({});

  const error = await errorOf(handler.start(createJob({ secret: () => "hunter2" })).result);

  expect(error).toBeInstanceOf(PayloadError);
  expect(String(error)).toContain("cannot be copied into a thread");
  expect(failureOf(error).stack).not.toContain("hunter2");
  expect(await handler.start(createJob("plain")).result).toMatchObject({ payload: "plain" });
});

test("what an isolated handler reports reaches the worker before its result", async () => {
  await using handler = createHandler({ exportName: "report" });
  const job = createJob();

  await handler.start(job).result;

  expect(Object.assign({}, ...job.reports)).toEqual({ stage: "writing", total: 3, done: 1 });
  expect(job.reports[0]).toEqual({ stage: "reading", total: 3 });
});

test("a loop that reports in each turn does not flood the worker", async () => {
  await using handler = createHandler({ exportName: "reportOften" });
  const job = createJob(200_000);

  await handler.start(job).result;

  expect(job.reports.length).toBeLessThan(20_000);
  expect(job.reports.at(-1)).toEqual({ done: 200_000 });
});

test("progress that cannot be sent fails the isolated job with the reason", async () => {
  await using handler = createHandler({ exportName: "reportFunction" });

  const error = await errorOf(handler.start(createJob()).result);

  expect(String(error)).toContain("(progress).done: is a function, which is not JSON");
});

test("progress that the worker refuses fails the isolated job with the worker's error", async () => {
  await using handler = createHandler({ exportName: "report" });
  const refusal = new Error("no such stage");
  const job = {
    ...createJob(),
    reportProgress: () => {
      throw refusal;
    },
  };

  expect(await errorOf(handler.start(job).result)).toBe(refusal);
});

test("a thread's signal aborts with the same error as the worker's, and the handler may finish", async () => {
  await using handler = createHandler({ exportName: "finishOnAbort" });
  const job = createJob();
  const { result } = handler.start(job);
  await hasBegun(job);

  job.abort(new JobCancelledError("Cancelled by ann: no longer wanted."));

  expect(await result).toEqual({
    name: "JobCancelledError",
    message: "Cancelled by ann: no longer wanted.",
    code: "WAYBILL_JOB_CANCELLED",
    isError: true,
  });
});

test("an isolated handler that throws its signal's reason fails with that very error", async () => {
  await using handler = createHandler({ exportName: "throwOnAbort" });
  const job = createJob();
  const reason = new JobTimeoutError("too long");
  const { result } = handler.start(job);
  await hasBegun(job);

  job.abort(reason);

  expect(await errorOf(result)).toBe(reason);
});

test("a loop in a thread that never awaits sees that its signal has aborted", async () => {
  await using handler = createHandler({ exportName: "loopUntilAborted" });
  const job = createJob();
  const { result } = handler.start(job);
  await hasBegun(job);

  job.abort(new JobTimeoutError("too long"));

  expect(await result).toBe("stopped: after some turns");
});

test("a job that waits for a thread ends at once when it is killed or aborted, and takes none", async () => {
  await using handler = createHandler({ exportName: "finishOnAbort" });
  const [running, killed, aborted, next] = [createJob(), createJob(), createJob(), createJob()];
  const first = handler.start(running);
  await hasBegun(running);
  const second = handler.start(killed);
  const third = handler.start(aborted);
  const fourth = handler.start(next);
  const [killReason, abortReason] = [new Error("killed"), new Error("aborted")];

  second.kill(killReason);
  aborted.abort(abortReason);

  expect(await errorOf(second.result)).toBe(killReason);
  expect(await errorOf(third.result)).toBe(abortReason);
  expect([killed.reports, aborted.reports]).toEqual([[], []]);
  running.abort(new Error("enough"));
  await first.result;
  await hasBegun(next);
  next.abort(new Error("enough"));
  expect(await fourth.result).toMatchObject({ message: "enough" });
});

test("a job whose signal has aborted before its start never reaches a thread", async () => {
  await using handler = createHandler({ exportName: "finishOnAbort" });
  const job = createJob();
  const reason = new ShutdownError("stopping");
  job.abort(reason);

  expect(await errorOf(handler.start(job).result)).toBe(reason);
  expect(job.reports).toEqual([]);
});

test("not more jobs run at a time than there are threads, and all of them run", async () => {
  const shared = new Int32Array(new SharedArrayBuffer(12));
  await using handler = createHandler({ exportName: "meetAnother", threads: 2 });

  await Promise.all(Array.from({ length: 8 }, () => handler.start(createJob({ shared })).result));

  expect([...shared]).toEqual([0, 2, 8]);
});

test("a worker with piscina installed may start with isolated handlers", async () => {
  await using handler = createHandler({});

  await expect(handler.check()).resolves.toBe(undefined);
});

test("without piscina a worker with isolated handlers does not start, and says what to install", async () => {
  const missing = Object.assign(new Error("Cannot find package 'piscina'"), {
    code: "ERR_MODULE_NOT_FOUND",
  });

  const error = await errorOf(loadPiscina("test.job", () => Promise.reject(missing)));

  expect(error).toBeInstanceOf(ConfigError);
  expect((error as Error).message).toBe(
    'Cannot use the configuration of worker.handle("test.job"):\n' +
      '  - isolation: "thread" needs the package piscina, which is not installed; run: npm install piscina',
  );
});
