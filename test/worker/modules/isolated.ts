/** Handlers that run in threads; see ../isolation.test.ts. */

import { once } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { threadId } from "node:worker_threads";
import {
  NonRetryableError,
  PayloadError,
  RetryAfterError,
  type JobDefinition,
} from "@waybill/core";
import type { IsolatedJob } from "../../../packages/worker/src/isolation/isolated-job.ts";

type Job<Payload = unknown> = Omit<IsolatedJob<JobDefinition>, "payload"> & {
  readonly payload: Payload;
};

/** Memory that the test sees while this thread cannot send anything. */
interface Shared {
  readonly shared: Int32Array;
}

export function run(job: Job): unknown {
  const { signal, reportProgress: _, ...context } = job;
  return {
    ...context,
    enqueuedAt: context.enqueuedAt.toISOString(),
    aborted: signal.aborted,
    isMainThread: threadId === 0,
  };
}

export const whichThread = (): number => threadId;

export const returns: Record<string, unknown> = { when: new Date(0) };
export const giveDate = (): unknown => returns;

export async function report(job: Job): Promise<void> {
  job.reportProgress({ stage: "reading", total: 3 });
  await turn();
  job.reportProgress({ done: 1 });
  job.reportProgress({ stage: "writing" });
}

export function reportOften(job: Job<number>): void {
  for (let done = 1; done <= job.payload; done += 1) job.reportProgress({ done });
}

export function reportFunction(job: Job): void {
  job.reportProgress({ stage: "x", done: (() => 1) as unknown as number });
}

async function untilAborted(job: Job): Promise<void> {
  const { signal } = job;
  job.reportProgress({ stage: "waiting" });
  // Something must keep the thread's event loop awake, as real work would.
  const alive = setInterval(() => undefined, 1_000);
  if (!signal.aborted) await once(signal, "abort");
  clearInterval(alive);
}

export async function finishOnAbort(job: Job): Promise<unknown> {
  await untilAborted(job);
  const { name, message, code } = job.signal.reason as Error & { code: string };
  return { name, message, code, isError: job.signal.reason instanceof Error };
}

export async function throwOnAbort(job: Job): Promise<never> {
  await untilAborted(job);
  throw job.signal.reason;
}

/** Never awaits, but looks at its signal. */
export function loopUntilAborted(job: Job): string {
  job.reportProgress({ stage: "looping" });
  let turns = 0;
  while (!job.signal.aborted) turns += 1;
  return `stopped: ${turns > 0 ? "after some turns" : "at once"}`;
}

export function loopForEver(job: Job): never {
  job.reportProgress({ stage: "looping" });
  for (;;);
}

export function fillHeap(): never {
  const kept: unknown[] = [];
  for (;;) kept.push({ n: kept.length, at: new Date() });
}

export function exit(job: Job<number>): void {
  process.exit(job.payload);
}

export async function throwInTimer(job: Job): Promise<void> {
  setTimeout(() => {
    throw Object.assign(new Error("thrown in a timer"), { code: "ECONNRESET" });
  });
  await untilAborted(job);
}

/** Returns before anybody can know of the rejection. */
export async function forgetRejection(): Promise<string> {
  void Promise.reject(new NonRetryableError("forgotten", { failureClass: "permission" }));
  return "done";
}

let endLeftBehind: (() => void) | undefined;

/** Leaves something behind that goes off during the next job. */
export function leaveBehind(job: Job<"throw" | "exit">): void {
  const timer = setInterval(() => {
    if (endLeftBehind === undefined) return;
    clearInterval(timer);
    setImmediate(endLeftBehind);
    if (job.payload === "exit") process.exit(7);
    throw new Error("left behind");
  }, 1);
}

export async function meetLeftBehind(job: Job<string>): Promise<unknown> {
  if (job.payload !== "meet") return leaveBehind(job as Job<"throw" | "exit">);
  await new Promise<void>((resolve) => (endLeftBehind = resolve));
  return "undisturbed";
}

/** Throws what the payload says. */
export function fail(job: Job<string>): never {
  switch (job.payload) {
    case "non-retryable":
      throw new NonRetryableError("no rights", { failureClass: "permission" });
    case "retry-after":
      throw new RetryAfterError("slow down", 5_000);
    case "payload":
      throw new PayloadError("other.job", [{ path: "to", message: "is missing" }]);
    case "code":
      throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
    case "cause":
      throw new TypeError("fetch failed", {
        cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }),
      });
    case "text":
      throw "only a text";
    default:
      throw null;
  }
}

/** Counts how many run at a time: [running, most, started]. Ends when `started` has reached two. */
export async function meetAnother(job: Job<Shared>): Promise<void> {
  const { shared } = job.payload;
  const running = Atomics.add(shared, 0, 1) + 1;
  if (running > Atomics.load(shared, 1)) Atomics.store(shared, 1, running);
  Atomics.add(shared, 2, 1);
  Atomics.notify(shared, 2);
  while (Atomics.load(shared, 2) < 2) Atomics.wait(shared, 2, 1);
  Atomics.sub(shared, 0, 1);
}
