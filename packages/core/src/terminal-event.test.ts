import { expect, expectTypeOf, test } from "vitest";
import { NameError } from "./errors.ts";
import type { OutputOf } from "./standard-schema.ts";
import { validateValue } from "./standard-schema.ts";
import { defineTerminalEvent, type JobEnded } from "./terminal-event.ts";

const ended: JobEnded = {
  jobId: "0198a3f4-5b6c-7d8e-9f00-112233445566",
  jobName: "report",
  queue: "default",
  state: "failed",
  attempt: 3,
  enqueuedAt: "2026-05-01T08:00:00.123Z",
  finishedAt: "2026-05-01T08:01:00.000Z",
  result: null,
  failureClass: "timeout",
  failureMessage: "too slow",
  cancelledBy: null,
  cancelReason: null,
};

test("a terminal event carries how the job ended, typed", async () => {
  const event = defineTerminalEvent("report.ended");

  expectTypeOf<OutputOf<typeof event.payload>>().toEqualTypeOf<JobEnded>();
  expectTypeOf(event.name).toEqualTypeOf<"report.ended">();
  expect(event.name).toBe("report.ended");
  expect(await validateValue(event.payload, ended)).toEqual({ value: ended });
});

test("a terminal event of a foreign message may lack the time of enqueuing, and nothing else", async () => {
  const { payload } = defineTerminalEvent("report.ended");

  const foreign = await validateValue(payload, { ...ended, enqueuedAt: null });
  const endless = await validateValue(payload, { ...ended, finishedAt: null });

  expect(foreign.issues).toBeUndefined();
  expect(endless.issues?.map(({ path }) => path)).toEqual(["finishedAt"]);
});

test("what a later version says of a job's end is no reason to refuse the event", async () => {
  const { payload } = defineTerminalEvent("report.ended");

  const valid = await validateValue(payload, {
    ...ended,
    failureClass: "out_of_memory",
    worker: "a",
  });

  expect(valid).toEqual({ value: { ...ended, failureClass: "out_of_memory" } });
});

test("terminal events follow the rules of names", () => {
  for (const name of ["", "constructor", "a b"]) {
    expect(() => defineTerminalEvent(name)).toThrow(NameError);
  }
});
