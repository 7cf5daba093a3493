/**
 * What a process does about one kind of stray error, named by its argument. A handler runs as an
 * attempt runs it, next to a neighbour that ends after it; each line of the output is an event.
 */

import { EventEmitter, once } from "node:events";
import { connect, createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { types } from "node:util";
import { type Logger, silentLogger } from "@waybill/core";
import { currentJob } from "../../../packages/worker/src/current-job.ts";
import { StrayErrors, strayErrorsMet } from "../../../packages/worker/src/stray-errors.ts";

const [kind = "", ...flags] = process.argv.slice(2);
const never = new Promise<never>(() => undefined);
const print = (...event: readonly string[]): void => console.log(event.join(" | "));

/** The code or message of an Error. */
function messageOf(error: unknown): string {
  // instanceof would ask a proxy, which may throw.
  if (!types.isNativeError(error)) return `no Error but ${error === null ? "null" : typeof error}`;
  return "code" in error ? String(error.code) : error.message;
}

function loggerOf(worker: string): Logger {
  return {
    ...silentLogger,
    error(fields, message) {
      const { jobId = "-", err } = fields as { jobId?: string; err: unknown };
      print("log", worker, jobId, message, messageOf(err));
    },
  };
}

function startAttempt(
  worker: string,
  jobId: string,
  handler: (signal: AbortSignal) => Promise<unknown>,
): { readonly outcome: Promise<void>; abort(): void } {
  const controller = new AbortController();
  const failed = Promise.withResolvers<string>();
  let hasEnded = false;
  const job = {
    jobId,
    jobName: "test",
    queue: "work",
    attempt: 1,
    logger: loggerOf(worker),
    ended: () => hasEnded,
    fail: (error: unknown) => failed.resolve(`failed with ${messageOf(error)}`),
  };
  async function run(): Promise<void> {
    const returned = currentJob.run(job, async () => await handler(controller.signal));
    const done = returned.then(strayErrorsMet).then(() => "done");
    const outcome = await Promise.race([failed.promise, done]);
    hasEnded = true;
    print("end", jobId, outcome);
  }
  return { outcome: run(), abort: () => currentJob.run(job, () => controller.abort()) };
}

const stray = (): never => {
  throw new Error("stray");
};
const later = Promise.withResolvers<void>();
const shared = new EventEmitter();

/** The handler of each kind of stray error. */
const handlers: Readonly<Record<string, (signal: AbortSignal) => Promise<unknown>>> = {
  rejection: async () => void Promise.reject(new Error("stray")),
  "late rejection": async () => {
    void delay(5).then(stray);
    await never;
  },
  "rejection without an Error": async () => void Promise.reject("words"),
  "rejection after the end": async () => void later.promise.then(stray),
  "rejection that is handled too late": async () => {
    const forgotten = Promise.reject(new Error("stray"));
    await delay(50);
    await forgotten.catch(() => undefined);
    await never;
  },
  setTimeout: async () => {
    setTimeout(stray, 5);
    await never;
  },
  setImmediate: async () => void setImmediate(stray),
  nextTick: async () => {
    process.nextTick(stray);
    await never;
  },
  null: async () => {
    setTimeout(() => {
      throw null;
    }, 5);
    await never;
  },
  "revoked proxy": async () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    setTimeout(() => {
      throw proxy;
    }, 5);
    await never;
  },
  socket: async () => {
    const server = createServer((socket) => socket.resetAndDestroy()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    server.unref();
    connect(typeof address === "object" && address !== null ? address.port : 0, "127.0.0.1");
    await never;
  },
  "abort listener": async (signal) => {
    signal.addEventListener("abort", stray);
    await never;
  },
  "shared emitter": async () => void shared.once("event", stray),
  nothing: async () => undefined,
};

const strays = ["first", "second"].map(
  (worker) =>
    new StrayErrors({
      logger: loggerOf(worker),
      onUnattributed: (error) => print("told", worker, messageOf(error)),
    }),
);
const [first, second] = strays;
first?.install();
first?.install();
if (flags.includes("two-workers")) second?.install();
if (flags.includes("own-listeners")) {
  process.on("uncaughtException", (error) => print("application", messageOf(error)));
  process.on("unhandledRejection", (error) => print("application", messageOf(error)));
}

const neighbourMayEnd = Promise.withResolvers<void>();
const neighbour = startAttempt("first", "neighbour", () => neighbourMayEnd.promise);
const worker = flags.includes("two-workers") ? "second" : "first";
const attempt = startAttempt(worker, "job", handlers[kind] ?? (() => never));
if (kind === "abort listener") attempt.abort();
await attempt.outcome;
later.resolve();
if (kind === "shared emitter") setImmediate(() => shared.emit("event"));
if (flags.includes("outside")) setImmediate(stray);
await delay(20);
neighbourMayEnd.resolve();
await neighbour.outcome;

second?.remove();
const own = process.listenerCount("uncaughtException");
first?.remove();
first?.remove();
print("listeners", String(own), String(process.listenerCount("uncaughtException")));
