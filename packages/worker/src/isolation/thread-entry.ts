/**
 * What runs in a thread: it loads the application's module, hands it one job at a time, and says how
 * each ended.
 *
 * What a job leaves behind (a timer, a forgotten promise) may fail while the next job runs. Node
 * tells of such errors in the asynchronous context that they come from, so only the job that is
 * running now is failed by its own; the thread is then given up, since its state is in doubt.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { syncBuiltinESMExports } from "node:module";
import { setImmediate as turn } from "node:timers/promises";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { encodePayload, issuesAt, PayloadError, payloadBytesMax } from "@waybill/core";
import { packError, unpackError } from "./error-wire.ts";
import type { IsolatedInput } from "./isolated-job.ts";
import { ProgressSender } from "./progress-sender.ts";
import type { AbortMessage, ThreadData, ThreadMessage, ThreadOutcome, ThreadTask } from "./wire.ts";

type Handler = (job: IsolatedInput) => unknown;

/** A job in this thread. */
interface Running {
  readonly jobId: string;
  readonly tell: (message: ThreadMessage) => void;
  /** Has told that it is broken: its outcome counts no more. */
  isBroken: boolean;
}

/** Most that one report of progress may be, in bytes of JSON. */
const progressBytesMax = 16_384;

const data = workerData as ThreadData;
const context = new AsyncLocalStorage<Running>();
let current: Running | undefined;
let handler: Promise<Handler> | undefined;

/** Runs one job. Called by piscina. */
export async function runJob({ job, port }: ThreadTask): Promise<ThreadOutcome> {
  const running: Running = {
    jobId: job.id,
    tell: (message) => port.postMessage(message),
    isBroken: false,
  };
  current = running;
  const controller = new AbortController();
  const onMessage = ({ reason }: AbortMessage): void => controller.abort(unpackError(reason));
  port.on("message", onMessage);
  const progress = new ProgressSender((report) => running.tell({ kind: "progress", report }));
  try {
    handler ??= prepare();
    const run = await handler.catch((error: unknown) => breakThread(running, error));
    const isolated: IsolatedInput = {
      ...job,
      get signal() {
        // A loop that never awaits lets no event in.
        for (let news; (news = receiveMessageOnPort(port)) !== undefined;) {
          onMessage(news.message as AbortMessage);
        }
        return controller.signal;
      },
      reportProgress: (report) => progress.report(plainReport(report)),
    };
    const outcome = await context.run(running, () => outcomeOf(run, isolated, controller.signal));
    // Node tells of rejections that nobody handles only after all microtasks.
    await turn();
    progress.flush();
    return running.isBroken ? await never() : outcome;
  } finally {
    current = undefined;
    port.close();
  }
}

async function outcomeOf(
  run: Handler,
  job: IsolatedInput,
  signal: AbortSignal,
): Promise<ThreadOutcome> {
  try {
    const value = await run(job);
    return { kind: "returned", text: data.wantsResult ? jsonOf(value, "(result)") : undefined };
  } catch (error) {
    return signal.aborted && error === signal.reason
      ? { kind: "reason" }
      : { kind: "threw", error: packError(error) };
  }
}

/** A report that can be sent; whether it makes sense is the worker's to say. */
function plainReport(report: unknown): object {
  const text = jsonOf(report, "(progress)", progressBytesMax);
  const plain: unknown = text === undefined ? undefined : JSON.parse(text);
  if (typeof plain === "object" && plain !== null && !Array.isArray(plain)) return plain;
  throw new PayloadError(data.jobName, [{ path: "(progress)", message: "must be an object" }]);
}

function jsonOf(value: unknown, place: string, bytesMax = payloadBytesMax): string | undefined {
  if (value === undefined) return undefined;
  const encoded = encodePayload(value, bytesMax);
  if (encoded.issues === undefined) return encoded.text;
  throw new PayloadError(data.jobName, issuesAt(place, encoded.issues));
}

/** Once, before the first job, and outside of its context: what the module opens is no job's. */
async function prepare(): Promise<Handler> {
  process.on("uncaughtException", onStray);
  process.on("unhandledRejection", onStray);
  guardExit();
  return await loadHandler();
}

async function loadHandler(): Promise<Handler> {
  let exported: unknown;
  try {
    const loaded = (await import(data.module)) as Record<string, unknown>;
    exported = loaded[data.exportName];
  } catch (error) {
    throw new Error(
      `Cannot run job "${data.jobName}" in a thread: its module ${data.module} cannot be loaded. ` +
        `The cause says why.`,
      { cause: error },
    );
  }
  if (typeof exported === "function") return exported as Handler;
  throw new Error(
    `Cannot run job "${data.jobName}" in a thread: ${data.module} exports no function ` +
      `"${data.exportName}". Export it, or name another one by exportName.`,
  );
}

/** The thread cannot be trusted any more: says so, and answers nothing. */
function breakThread(running: Running, error: unknown): Promise<never> {
  if (!running.isBroken) {
    running.isBroken = true;
    running.tell({ kind: "broken", error: packError(error) });
  }
  return never();
}

/** The worker terminates the thread instead of waiting for an answer. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}

function onStray(error: unknown): void {
  const owner = context.getStore() ?? current;
  if (owner !== undefined && owner === current) {
    void breakThread(owner, error);
    return;
  }
  parentPort?.postMessage({ jobId: owner?.jobId, error: packError(error) });
}

/** A job may end its thread, but what an earlier job left behind must not end the next one's. */
function guardExit(): void {
  const exit = process.exit.bind(process);
  process.exit = (code) => {
    const owner = context.getStore();
    if (owner === undefined || owner === current) return exit(code);
    throw new Error(
      `Cannot exit for job ${owner.jobId}: it has ended, and its thread is for other jobs now.`,
    );
  };
  syncBuiltinESMExports();
}
