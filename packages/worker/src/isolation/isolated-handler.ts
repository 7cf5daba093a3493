/**
 * The handler of a job type that runs in threads: at most so many threads, each with one job at a
 * time, and the jobs that wait for one of them in their order.
 */

import { availableParallelism } from "node:os";
import { type Logger, ShutdownError } from "@waybill/core";
import type { Piscina } from "piscina";
import type { IsolatedInput } from "./isolated-job.ts";
import { JobThread } from "./job-thread.ts";
import { loadPiscina } from "./load-piscina.ts";
import type { ResolvedThreadOptions } from "./options.ts";

const threadsMax = 64;

/** What {@link IsolatedHandler} is made of. */
export interface IsolatedHandlerOptions {
  readonly jobName: string;
  readonly options: ResolvedThreadOptions;
  /** Jobs of the queue at a time: the threads, where the options do not say. */
  readonly concurrency: number;
  /** False where the definition has no result: what the handler returns is then ignored. */
  readonly wantsResult: boolean;
  readonly logger: Logger;
}

/** A job on its way through a thread. */
export interface IsolatedAttempt {
  /** What the handler returned, or the error it threw. */
  readonly result: Promise<unknown>;
  /**
   * Ends the job's thread, whatever it is doing; `result` rejects with `reason` when the thread is
   * gone. No effect on a job that has ended.
   */
  readonly kill: (reason: Error) => void;
}

interface Started extends IsolatedAttempt {
  readonly jobId: string;
}

/** See the head of the file. */
export class IsolatedHandler {
  readonly #options: IsolatedHandlerOptions;
  readonly #threadsMax: number;
  /** All threads; made when they are needed. */
  readonly #threads = new Set<JobThread>();
  /** Those without a job, the last used last: the others may end for want of work. */
  readonly #idle: JobThread[] = [];
  /** Jobs without a thread. */
  readonly #waiting = new Set<PromiseWithResolvers<JobThread>>();
  readonly #running = new Set<Started>();
  #pool: Promise<typeof Piscina> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: IsolatedHandlerOptions) {
    this.#options = options;
    const wanted = options.options.threads ?? Math.min(options.concurrency, availableParallelism());
    this.#threadsMax = Math.max(1, Math.min(wanted, threadsMax));
  }

  /**
   * To be awaited at the start of the worker.
   *
   * @throws ConfigError where piscina is not installed
   */
  async check(): Promise<void> {
    await this.#load();
  }

  /** Runs a job. While all threads are taken it waits, and ends at once if its signal aborts. */
  start(job: IsolatedInput): IsolatedAttempt {
    const killed = new AbortController();
    const kill = (reason: Error): void => killed.abort(reason);
    const result = this.#run(job, killed.signal).finally(() => this.#running.delete(started));
    // Whoever does not wait any more must not end the process.
    result.catch(() => undefined);
    const started: Started = { jobId: job.id, result, kill };
    this.#running.add(started);
    return started;
  }

  /** Ends every thread and what runs in it. Waits for that, but not for ever. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #run(job: IsolatedInput, kill: AbortSignal): Promise<unknown> {
    const thread = await this.#acquire(job, kill);
    try {
      return await thread.run(job, kill);
    } finally {
      this.#release(thread);
    }
  }

  async #acquire(job: IsolatedInput, kill: AbortSignal): Promise<JobThread> {
    const Pool = await this.#load();
    const given = AbortSignal.any([kill, job.signal]);
    given.throwIfAborted();
    if (this.#closed !== undefined) throw closing(job.id);
    const thread = this.#idle.pop() ?? this.#create(Pool);
    if (thread !== undefined) return thread;
    const turn = Promise.withResolvers<JobThread>();
    const onAbort = (): void => {
      // At once, or a thread might be given to it that nobody takes.
      this.#waiting.delete(turn);
      turn.reject(given.reason);
    };
    this.#waiting.add(turn);
    given.addEventListener("abort", onAbort);
    try {
      return await turn.promise;
    } finally {
      given.removeEventListener("abort", onAbort);
    }
  }

  #create(Pool: typeof Piscina): JobThread | undefined {
    if (this.#threads.size >= this.#threadsMax) return undefined;
    const { jobName, options, wantsResult, logger } = this.#options;
    const thread = new JobThread({
      Pool,
      heapMb: options.heapMb,
      logger,
      data: {
        module: options.module.href,
        exportName: options.exportName,
        jobName,
        wantsResult,
      },
    });
    this.#threads.add(thread);
    return thread;
  }

  #release(thread: JobThread): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#idle.push(thread);
      return;
    }
    this.#waiting.delete(next);
    next.resolve(thread);
  }

  #load(): Promise<typeof Piscina> {
    this.#pool ??= loadPiscina(this.#options.jobName);
    return this.#pool;
  }

  async #close(): Promise<void> {
    const running = [...this.#running];
    for (const { jobId, kill } of running) kill(closing(jobId));
    await Promise.allSettled(running.map(({ result }) => result));
    await Promise.all([...this.#threads].map((thread) => thread.close()));
  }
}

function closing(jobId: string): ShutdownError {
  return new ShutdownError(
    `Cannot go on with job ${jobId}: the worker has closed its threads. ` +
      `Nothing is lost; another worker runs it.`,
  );
}
