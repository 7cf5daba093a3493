import { ConfigError } from "@waybill/core";
import { expect, test } from "vitest";
import { resolveBatchOptions } from "./options.ts";

test("a batch has up to 100 jobs, and waits 50 ms for them", () => {
  expect(resolveBatchOptions("index", {})).toEqual({ maxJobs: 100, maxWaitMs: 50 });
});

test("every problem of the options is named at once", () => {
  const wrong = { maxJobs: 1_001, maxWaitMs: -1, size: 5 };
  let error: unknown;

  try {
    resolveBatchOptions("index", wrong);
  } catch (thrown) {
    error = thrown;
  }

  expect(error).toBeInstanceOf(ConfigError);
  const text = (error as ConfigError).message;
  expect(text).toContain('worker.handleBatch("index")');
  for (const name of ["maxJobs", "maxWaitMs", "size"]) expect(text).toContain(name);
});

test.each([[{ maxJobs: 0 }], [{ maxJobs: 1.5 }], [{ maxWaitMs: 60_001 }]])(
  "%j is refused",
  (options) => {
    expect(() => resolveBatchOptions("index", options)).toThrow(ConfigError);
  },
);
