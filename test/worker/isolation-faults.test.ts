import {
  failureOf,
  JobTimeoutError,
  type Logger,
  ShutdownError,
  silentLogger,
} from "@waybill/core";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { createHandler, createJob, errorOf, hasBegun } from "./support/isolated-handler.ts";

test("a killed endless loop ends, and the next job gets a new thread", async () => {
  await using handler = createHandler({ exportName: "loopForEver" });
  const reason = new JobTimeoutError("far too long");
  for (let n = 0; n < 3; n += 1) {
    const job = createJob();
    const { result, kill } = handler.start(job);
    await hasBegun(job);

    kill(reason);

    expect(await errorOf(result)).toBe(reason);
  }
});

/** Runs `neighbour` beside a job that ends its thread, and returns the error of that one. */
async function besideNeighbour(
  exportName: string,
  payload: unknown,
): Promise<{ readonly error: Error; readonly id: string }> {
  await using handler = createHandler({ exportName, heapMb: 32 });
  await using neighbours = createHandler({ exportName: "finishOnAbort", heapMb: 32 });
  const neighbour = createJob();
  const beside = neighbours.start(neighbour).result;
  await hasBegun(neighbour);
  const job = createJob(payload);

  const error = await errorOf(handler.start(job).result);

  neighbour.abort(new Error("enough"));
  expect(await beside).toMatchObject({ message: "enough" });
  return { error: error as Error, id: job.id };
}

test("a job that fills its heap fails alone, and says which limit it broke", async () => {
  const { error, id } = await besideNeighbour("fillHeap", null);

  expect(error.message).toBe(
    `Cannot go on with job ${id}: its thread ran out of memory (heapMb 32). Raise heapMb, or do less in one job.`,
  );
  expect(error.cause).toMatchObject({ code: "ERR_WORKER_OUT_OF_MEMORY" });
  expect(failureOf(error).failureClass).toBe("unknown");
});

test("a job that calls process.exit ends its thread and fails alone", async () => {
  const { error, id } = await besideNeighbour("exit", 0);

  expect(error.message).toBe(
    `Cannot go on with job ${id}: its handler ended the thread by process.exit(0). Throw an error instead.`,
  );
});

test("an error in a timer of a thread fails its job alone, in its class", async () => {
  const { error } = await besideNeighbour("throwInTimer", null);

  expect(error.message).toBe("thrown in a timer");
  expect(failureOf(error).failureClass).toBe("transient");
});

test("a rejection that an isolated handler forgot fails its job alone, in its class", async () => {
  const { error } = await besideNeighbour("forgetRejection", null);

  expect(error.message).toBe("forgotten");
  expect(failureOf(error)).toMatchObject({ failureClass: "permission", retryable: false });
});

test("a job that breaks its thread does not disturb the other threads of its type", async () => {
  const shared = new Int32Array(new SharedArrayBuffer(12));
  await using handler = createHandler({ exportName: "loopForEver", threads: 2 });
  await using meeting = createHandler({ exportName: "meetAnother", threads: 2 });
  const [first, second] = [createJob(), createJob()];
  const [one, two] = [handler.start(first), handler.start(second)];
  await Promise.all([hasBegun(first), hasBegun(second)]);

  one.kill(new Error("killed"));
  await errorOf(one.result);

  const met = Array.from({ length: 6 }, () => meeting.start(createJob({ shared })).result);
  await Promise.all(met);
  const still = await Promise.race([two.result, Promise.resolve("running")]);
  expect(still).toBe("running");
});

test.each(["throw", "exit"])(
  "what a job left behind in its thread does not fail the next job (%s)",
  async (how) => {
    const lines: [object, string][] = [];
    const logger: Logger = {
      ...silentLogger,
      error: (fields, message) => void lines.push([fields, message]),
    };
    await using handler = createHandler({ exportName: "meetLeftBehind", logger });
    const culprit = createJob(how);
    await handler.start(culprit).result;

    expect(await handler.start(createJob("meet")).result).toBe("undisturbed");
    await eventually(() => lines.length > 0);
    expect(lines).toEqual([
      [
        expect.objectContaining({ jobId: culprit.id, jobName: "test.job" }),
        "error in a thread, outside of the job that it runs",
      ],
    ]);
  },
);

test.each([
  ["non-retryable", { failureClass: "permission", retryable: false, message: "no rights" }],
  ["retry-after", { failureClass: "rate_limited", retryable: true, retryAfterMs: 5_000 }],
  ["payload", { failureClass: "validation", retryable: false }],
  ["code", { failureClass: "transient", message: "refused" }],
  ["cause", { failureClass: "transient", message: "fetch failed" }],
  ["text", { failureClass: "unknown", message: "only a text" }],
  ["null", { message: "The handler threw a value that is no Error: null" }],
])("what an isolated handler throws means the same as anywhere (%s)", async (payload, failure) => {
  await using handler = createHandler({ exportName: "fail" });

  const error = await errorOf(handler.start(createJob(payload)).result);

  expect(failureOf(error)).toMatchObject(failure);
  if (error instanceof Error) expect(error.stack).toContain("modules/isolated.ts");
});

test("closing ends what runs and what waits, and nothing can start any more", async () => {
  await using handler = createHandler({ exportName: "loopForEver" });
  const [running, waiting] = [createJob(), createJob()];
  const first = handler.start(running);
  await hasBegun(running);
  const second = handler.start(waiting);

  await handler.close();

  for (const { result } of [first, second, handler.start(createJob())]) {
    expect(await errorOf(result)).toBeInstanceOf(ShutdownError);
  }
  expect(waiting.reports).toEqual([]);
});

test("a module without the function fails its jobs with what to do", async () => {
  await using handler = createHandler({ exportName: "returns" });

  for (let n = 0; n < 2; n += 1) {
    expect(String(await errorOf(handler.start(createJob()).result))).toContain(
      'exports no function "returns". Export it, or name another one by exportName.',
    );
  }
});

test("a module that cannot be loaded fails its jobs in the class of the cause", async () => {
  await using handler = createHandler({
    module: new URL("./modules/broken.ts", import.meta.url),
  });

  const error = await errorOf(handler.start(createJob()).result);

  expect(String(error)).toContain("cannot be loaded");
  expect(failureOf(error)).toMatchObject({ failureClass: "transient", retryable: true });
});
