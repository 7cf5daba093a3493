/**
 * One thread of a job type, and how jobs end in it.
 *
 * Each thread is a piscina pool of its own, of one thread and without a queue: in a pool of several whose
 * idle threads may end, a task that waits behind one whose thread dies gets no new thread in its place.
 */

import { once } from "node:events";
import { MessageChannel, type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import { type Logger, PayloadError } from "@waybill/core";
import type { Piscina } from "piscina";
import { currentJob } from "../current-job.ts";
import type { Progress } from "../progress.ts";
import { within } from "../waiting.ts";
import { type ErrorWire, packError, unpackError } from "./error-wire.ts";
import type { IsolatedInput } from "./isolated-job.ts";
import type { ThreadData, ThreadMessage, ThreadOutcome, ThreadTask } from "./wire.ts";

/** How long the end of a terminated thread is waited for: native code cannot be interrupted. */
const terminationMs = 2_000;
/** How long a thread without a job is kept, in milliseconds. */
const idleMs = 60_000;

/** Extension of this very file: `.ts` in the repository, `.js` in the package. */
const extension = new URL(import.meta.url).pathname.endsWith(".ts") ? ".ts" : ".js";
const condition = "--conditions=@waybill/source";

type PoolOptions = NonNullable<ConstructorParameters<typeof Piscina>[0]>;

/** What all threads of a job type share. */
export interface JobThreadOptions {
  readonly Pool: typeof Piscina;
  readonly data: ThreadData;
  readonly heapMb: number;
  readonly logger: Logger;
}

/** See the head of the file. */
export class JobThread {
  readonly #options: JobThreadOptions;
  readonly #pool: Piscina<ThreadTask, ThreadOutcome>;
  /** What ended a thread that had no job yet. */
  #startError: unknown;

  constructor(options: JobThreadOptions) {
    this.#options = options;
    // A thread outlives the job that it is made for: it must not keep that job's context.
    this.#pool = currentJob.exit(() => new options.Pool(poolOptions(options)));
    // Without a listener it would end the process.
    this.#pool.on("error", (error: unknown) => {
      this.#startError = error;
    });
    this.#pool.on("message", (message: unknown) => this.#logStray(message));
  }

  /**
   * Runs one job; there must be no other.
   *
   * @param kill ends the thread at once; the promise then rejects with the signal's reason
   * @returns what the handler returned
   */
  async run(job: IsolatedInput, kill: AbortSignal): Promise<unknown> {
    kill.throwIfAborted();
    const { port1, port2 } = new MessageChannel();
    const broken = Promise.withResolvers<never>();
    const stop = new AbortController();
    const read = (message: ThreadMessage): void => {
      if (message.kind === "progress") return progress.report(message.report);
      this.#logBroken(job, message.error);
      broken.reject(unpackError(message.error));
    };
    const progress = new ProgressReader(job);
    const onAbort = (): void => port1.postMessage({ reason: packError(job.signal.reason) });
    const onKill = (): void => broken.reject(kill.reason as Error);
    port1.on("message", read);
    kill.addEventListener("abort", onKill);
    if (job.signal.aborted) onAbort();
    else job.signal.addEventListener("abort", onAbort);
    try {
      const outcome = await Promise.race([this.#post(job, port2, stop.signal), broken.promise]);
      for (let left; (left = receiveMessageOnPort(port1)) !== undefined;) {
        read(left.message as ThreadMessage);
      }
      progress.check();
      return valueOf(outcome, job);
    } finally {
      kill.removeEventListener("abort", onKill);
      job.signal.removeEventListener("abort", onAbort);
      await this.#terminate(stop);
      port1.close();
    }
  }

  /** Ends the thread. Waits for its end, but not for ever. */
  async close(): Promise<void> {
    await within(
      terminationMs,
      this.#pool.destroy().catch(() => undefined),
    );
  }

  async #post(job: IsolatedInput, port: MessagePort, stop: AbortSignal): Promise<ThreadOutcome> {
    const {
      id,
      name,
      payload,
      attempt,
      correlationId,
      concurrencyKey,
      headers,
      enqueuedAt,
      priority,
      checkpoint,
    } = job;
    const task: ThreadTask = {
      job: {
        id,
        name,
        payload,
        attempt,
        correlationId,
        concurrencyKey,
        headers,
        enqueuedAt,
        priority,
        checkpoint,
      },
      port,
    };
    this.#startError = undefined;
    // Started here, if there is none: outside of the job's context too.
    const answer = currentJob.exit(() =>
      this.#pool.run(task, { transferList: [port], signal: stop }),
    );
    const [thread] = this.#pool.threads;
    const ended = Promise.withResolvers<never>();
    const onExit = (): void => ended.reject(this.#startError ?? new Error("the thread has ended"));
    // Piscina leaves a task alone whose thread ends before it has taken it.
    thread?.once("exit", onExit);
    try {
      return await Promise.race([answer, ended.promise]);
    } catch (error) {
      throw this.#errorOf(error, job);
    } finally {
      thread?.off("exit", onExit);
    }
  }

  /** Why there is no answer. */
  #errorOf(error: unknown, { id, name }: IsolatedInput): Error {
    const { code, message, name: type } = error as Error & { code?: unknown };
    if (type === "DataCloneError") {
      // Its own message may quote the payload.
      return new PayloadError(name, [
        {
          path: "",
          message:
            "cannot be copied into a thread; its schema and its checkpoint's must give plain data",
        },
      ]);
    }
    if (code === "ERR_WORKER_OUT_OF_MEMORY") {
      return new Error(
        `Cannot go on with job ${id}: its thread ran out of memory (heapMb ${this.#options.heapMb}). ` +
          `Raise heapMb, or do less in one job.`,
        { cause: error },
      );
    }
    const exit = /^worker exited with code: (\d+)$/.exec(message);
    if (exit !== null) {
      return new Error(
        `Cannot go on with job ${id}: its handler ended the thread by process.exit(${exit[1]}). ` +
          `Throw an error instead.`,
      );
    }
    return new Error(`Cannot go on with job ${id}: its thread has ended. The cause says why.`, {
      cause: error,
    });
  }

  /** No effect on a thread that has answered. */
  async #terminate(stop: AbortController): Promise<void> {
    const [thread] = this.#pool.threads;
    stop.abort();
    if (thread === undefined || this.#pool.threads.includes(thread)) return;
    // Until then the handler may still be at work.
    if (thread.threadId !== -1)
      await within(
        terminationMs,
        once(thread, "exit").catch(() => undefined),
      );
  }

  #logBroken({ id, name }: IsolatedInput, error: ErrorWire): void {
    this.#options.logger.error(
      { jobId: id, jobName: name, err: unpackError(error) },
      "error outside the handler's promise ended the job's thread",
    );
  }

  #logStray(message: unknown): void {
    const { jobId, error } = message as { jobId?: unknown; error?: ErrorWire };
    this.#options.logger.error(
      {
        jobId,
        jobName: this.#options.data.jobName,
        err: error === undefined ? undefined : unpackError(error),
      },
      "error in a thread, outside of the job that it runs",
    );
  }
}

function poolOptions({ data, heapMb }: JobThreadOptions): PoolOptions {
  const isSource = extension === ".ts" && !process.execArgv.includes(condition);
  return {
    filename: new URL(`./thread-entry${extension}`, import.meta.url).href,
    name: "runJob",
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: idleMs,
    // A thread that sleeps in Atomics.wait would hold up what jobs and libraries do in between.
    atomics: "disabled",
    workerData: data,
    resourceLimits: { maxOldGenerationSizeMb: heapMb },
    // Otherwise those of the process are inherited; not all of them may be given explicitly.
    ...(isSource ? { execArgv: [condition] } : {}),
  };
}

/** Hands on what a job reports; what the worker refuses fails the job, as it would without a thread. */
class ProgressReader {
  readonly #job: IsolatedInput;
  #refusal: { readonly error: unknown } | undefined;

  constructor(job: IsolatedInput) {
    this.#job = job;
  }

  report(report: Progress): void {
    try {
      this.#job.reportProgress(report);
    } catch (error) {
      this.#refusal ??= { error };
    }
  }

  check(): void {
    if (this.#refusal !== undefined) throw this.#refusal.error;
  }
}

function valueOf(outcome: ThreadOutcome, job: IsolatedInput): unknown {
  switch (outcome.kind) {
    case "returned":
      return outcome.text === undefined ? undefined : (JSON.parse(outcome.text) as unknown);
    case "threw":
      throw unpackError(outcome.error);
    case "reason":
      throw job.signal.reason;
  }
}
