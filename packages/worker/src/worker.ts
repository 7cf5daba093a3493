import {
  ConfigError,
  defineJob,
  type EventDefinition,
  type JobDefinition,
  type OutputOf,
  type PayloadOutput,
  type ResultOf,
  safeLogger,
} from "@waybill/core";
import type { Database } from "@waybill/postgres";
import { checkDependencies } from "./dependencies.ts";
import type { BatchedJob } from "./batch/batched-job.ts";
import { type BatchHandlerOptions, resolveBatchOptions } from "./batch/options.ts";
import { type Internals, noInternals } from "./internals.ts";
import { IsolatedHandler } from "./isolation/isolated-handler.ts";
import { resolveThreadOptions, type ThreadHandlerOptions } from "./isolation/options.ts";
import type { Context, Job, ReceivedEvent, SubscriptionOptions, TransactionalJob } from "./job.ts";
import {
  type ResolvedWorkerOptions,
  resolveWorkerOptions,
  subscriptionConcurrency,
  type WorkerOptions,
} from "./options.ts";
import { type AnyContext, Registry } from "./registry.ts";
import { makeRehearsable } from "./rehearsal.ts";
import { startDatabase } from "./start-database.ts";
import type { WorkerStatus } from "./status.ts";
import { WorkerRun } from "./worker-run.ts";

/** Runs jobs and receives events; see {@link createWorker}. */
export interface Worker<Tx> extends AsyncDisposable {
  /**
   * Registers a handler for jobs whose work is not one transaction: calls to other systems, long
   * work, several transactions. The attempt has succeeded when it resolves; it may run again after
   * a crash, so what it does outside `job.transaction` should be idempotent (the job's id helps).
   *
   * @throws DuplicateJobError if there is a handler for this job and version
   */
  handle<J extends JobDefinition>(
    job: J,
    run: (job: Job<J, Tx>) => Promise<ResultOf<J>> | ResultOf<J>,
  ): void;
  /**
   * Registers a module whose handler runs in threads of their own, apart from this process's event
   * loop: for work that computes. Its thread can be ended whatever it does. Needs piscina.
   *
   * @throws DuplicateJobError if there is a handler for this job and version
   * @throws ConfigError with every problem of the options
   */
  handle(job: JobDefinition, options: ThreadHandlerOptions): void;
  /**
   * Registers a handler whose writes on `tx` commit together with the job's end: each effect is in
   * the database once, whatever crashes, repeats or competes. Follow-up jobs that are enqueued on
   * `tx` exist if and only if it commits. After a serialization failure or a deadlock it is run again
   * at once, up to 3 times, without spending an attempt.
   *
   * @throws DuplicateJobError if there is a handler for this job and version
   */
  handleInTransaction<J extends JobDefinition>(
    job: J,
    run: (job: TransactionalJob<J>, tx: Tx) => Promise<ResultOf<J>> | ResultOf<J>,
  ): void;
  /**
   * Registers a handler that gets several jobs at once: for systems that take many records in one
   * call. It gets only jobs that this worker has claimed and that may run side by side; payloads
   * that do not fit the schema fail alone and never reach it. Each job keeps an outcome of its own:
   * what `job.succeed` or `job.fail` states first, or else success when the handler resolves and a
   * failure with its error when it throws. It runs again after a crash, as with {@link handle}.
   *
   * @param run its `signal` aborts when each job without a stated outcome was told to stop
   * @throws DuplicateJobError if there is a handler for this job and version
   * @throws ConfigError with every problem of the options
   *
   * @example
   * worker.handleBatch(indexProduct, { maxJobs: 200, maxWaitMs: 100 }, async (jobs, signal) => {
   *   const refused = await searchIndex.put(jobs.map(({ id, payload }) => ({ id, ...payload })), signal);
   *   for (const job of jobs) if (refused.has(job.id)) job.fail(refused.get(job.id));
   * });
   */
  handleBatch<J extends JobDefinition>(
    job: J,
    options: BatchHandlerOptions,
    run: (jobs: readonly BatchedJob<J, Tx>[], signal: AbortSignal) => Promise<void> | void,
  ): void;
  /**
   * Subscribes to an event, with a transactional handler. Every subscription gets every event once;
   * a retry goes to this subscription alone.
   *
   * @throws DuplicateJobError if the subscription has a handler for this event
   * @throws NameError for a subscription outside the rules of queue names
   * @throws ConfigError for options out of bounds
   */
  on<E extends EventDefinition>(
    event: E,
    options: SubscriptionOptions,
    run: (event: ReceivedEvent<E>, tx: Tx) => Promise<void> | void,
  ): void;
  /**
   * Works until the signal aborts, then stops taking jobs, lets the running ones finish within the
   * grace, hands back the rest without spending attempts, and resolves. Ends in the same way by
   * itself, when an operator asks for a restart or a limit of `recycle` is reached. Waits for a
   * database or broker that is not there yet.
   *
   * @throws the error itself, after draining, for an error that occurred outside any job
   * @throws ConfigError if handlers, queues and pool do not fit together
   * @throws SchemaVersionError if the schema is missing, older or newer
   * @throws DatabaseUnavailableError or BrokerUnavailableError where waiting cannot help
   */
  run(options: {
    readonly signal: AbortSignal;
    /** Cuts the grace short: what still runs is handed back at once. */
    readonly hurrySignal?: AbortSignal | undefined;
  }): Promise<void>;
  status(): WorkerStatus;
  /** Stops it as the signal of `run` does, and waits for the end. */
  [Symbol.asyncDispose](): Promise<void>;
}

class WaybillWorker<Tx> implements Worker<Tx> {
  readonly #options: ResolvedWorkerOptions;
  readonly #database: Database<Tx>;
  readonly #internals: Internals;
  readonly #registry = new Registry<Tx>();
  readonly #disposal = new AbortController();
  #state: WorkerStatus["state"] = "created";
  #run: WorkerRun<Tx> | undefined;
  #finished: Promise<void> | undefined;

  constructor(options: WorkerOptions<Tx>, internals: Partial<Internals>) {
    this.#options = resolveWorkerOptions(options);
    this.#database = options.database;
    this.#internals = { ...noInternals, ...internals };
    makeRehearsable(this, {
      registry: this.#registry,
      database: this.#database,
      schema: this.#options.schema,
      logger: this.#options.logger,
      encryption: this.#options.encryption,
    });
  }

  handle<J extends JobDefinition>(
    job: J,
    run: ((job: Job<J, Tx>) => Promise<ResultOf<J>> | ResultOf<J>) | ThreadHandlerOptions,
  ): void {
    if (typeof run !== "function") {
      this.#addJob(job, { kind: "isolated", handler: this.#isolated(job, run) });
      return;
    }
    this.#addJob(job, {
      kind: "plain",
      // Payload and checkpoint were checked against the definition's schemas.
      handler: async (context) => await run(context as Job<J, Tx>),
    });
  }

  handleInTransaction<J extends JobDefinition>(
    job: J,
    run: (job: TransactionalJob<J>, tx: Tx) => Promise<ResultOf<J>> | ResultOf<J>,
  ): void {
    this.#addJob(job, {
      kind: "transactional",
      handler: async (context, tx) => await run(typed<J["name"], PayloadOutput<J>>(context), tx),
    });
  }

  handleBatch<J extends JobDefinition>(
    job: J,
    options: BatchHandlerOptions,
    run: (jobs: readonly BatchedJob<J, Tx>[], signal: AbortSignal) => Promise<void> | void,
  ): void {
    this.#addJob(job, {
      kind: "batch",
      ...resolveBatchOptions(job.name, options),
      // Payloads and checkpoints were checked against the definition's schemas.
      handler: async (jobs, signal) => await run(jobs as readonly BatchedJob<J, Tx>[], signal),
    });
  }

  on<E extends EventDefinition>(
    event: E,
    options: SubscriptionOptions,
    run: (event: ReceivedEvent<E>, tx: Tx) => Promise<void> | void,
  ): void {
    const { subscription, retry, timeoutMs, hardTimeoutMs } = options;
    // A subscription's policy is checked and filled in as a job's is.
    const { options: policy } = defineJob({
      name: event.name,
      payload: event.payload,
      queue: subscription,
      retry,
      timeoutMs,
      hardTimeoutMs,
    });
    this.#refuseLate();
    this.#registry.addEvent(subscription, {
      name: event.name,
      version: undefined,
      payload: event.payload,
      checkpoint: undefined,
      result: undefined,
      upcasters: new Map(),
      dependsOn: [],
      retry: policy.retry,
      timeoutMs: policy.timeoutMs,
      hardTimeoutMs: policy.hardTimeoutMs,
      run: {
        kind: "transactional",
        handler: async (context, tx) =>
          await run(typed<E["name"], OutputOf<E["payload"]>>(context), tx),
      },
    });
  }

  #isolated(job: JobDefinition, options: ThreadHandlerOptions): IsolatedHandler {
    const { queues, logger, name } = this.#options;
    return new IsolatedHandler({
      jobName: job.name,
      options: resolveThreadOptions(job.name, options),
      concurrency: queues[job.options.queue]?.concurrency ?? 1,
      wantsResult: job.result !== undefined,
      logger: safeLogger(logger).child({ component: "worker", worker: name }),
    });
  }

  #addJob(job: JobDefinition, run: Parameters<Registry<Tx>["addJob"]>[2]["run"]): void {
    const { queue, version, retry, timeoutMs, hardTimeoutMs } = job.options;
    this.#refuseLate();
    this.#registry.addJob(queue, version, {
      name: job.name,
      version,
      payload: job.payload,
      checkpoint: job.checkpoint,
      result: job.result,
      upcasters: job.upcasters,
      dependsOn: job.dependsOn,
      retry,
      timeoutMs,
      hardTimeoutMs,
      run,
    });
  }

  /** Queues and subscriptions are fixed at the start: a later handler would silently get nothing. */
  #refuseLate(): void {
    if (this.#state === "created") return;
    throw new ConfigError("createWorker", [
      { path: "", message: "handlers must be registered before run()" },
    ]);
  }

  status(): WorkerStatus {
    const parts = this.#run?.status() ?? {
      workerId: undefined,
      draining: false,
      database: "unavailable" as const,
      running: 0,
      finishedJobs: 0,
      leftBehind: 0,
      queues: [],
    };
    return { state: this.#state, ...parts };
  }

  run({ signal, hurrySignal }: Parameters<Worker<Tx>["run"]>[0]): Promise<void> {
    if (this.#finished !== undefined) {
      return Promise.reject(
        new ConfigError("createWorker", [
          { path: "", message: "run() was called before; create another worker" },
        ]),
      );
    }
    const end = AbortSignal.any([signal, this.#disposal.signal]);
    this.#finished = this.#live(end, hurrySignal).finally(() => {
      this.#state = "stopped";
    });
    return this.#finished;
  }

  async #live(signal: AbortSignal, hurrySignal: AbortSignal | undefined): Promise<void> {
    const options = this.#options;
    const subscriptions = this.#registry.subscriptions.map(({ subscription }) => subscription);
    const concurrencyOf = (queue: string): number | undefined =>
      options.queues[queue]?.concurrency ??
      (subscriptions.includes(queue) ? subscriptionConcurrency : undefined);
    this.#registry.check(
      concurrencyOf,
      [...Object.keys(options.queues), ...subscriptions],
      this.#database.poolSize,
    );
    checkDependencies(options.dependencies, this.#registry.dependents, options.queues);
    this.#state = "starting";
    const { threads } = this.#registry;
    try {
      for (const handler of threads) await handler.check();
      await this.#liveInProcess(signal, hurrySignal);
    } finally {
      await Promise.all(threads.map((handler) => handler.close()));
    }
  }

  async #liveInProcess(signal: AbortSignal, hurrySignal: AbortSignal | undefined): Promise<void> {
    const options = this.#options;
    const { databaseUrl, schema, name } = options;
    const logger = safeLogger(options.logger).child({ component: "worker", worker: name });
    const { random } = this.#internals;
    let ownDatabase;
    try {
      ownDatabase = await startDatabase({ databaseUrl, schema, name, logger }, random, signal);
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    const run = new WorkerRun<Tx>({
      options,
      database: this.#database,
      registry: this.#registry,
      internals: this.#internals,
      ownDatabase,
      logger,
    });
    this.#run = run;
    this.#state = "running";
    await run.run(signal, hurrySignal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposal.abort();
    // Its failure is the caller's of run().
    await this.#finished?.catch(() => undefined);
  }
}

/** The context with the types of its definition, whose schema has checked the payload. */
function typed<Name extends string, Payload>(context: AnyContext): Context<Name, Payload> {
  return context as Context<Name, Payload>;
}

/**
 * Creates a worker. It connects to nothing before `run`.
 *
 * @throws ConfigError that names every problem of the options
 *
 * @example
 * const worker = createWorker({
 *   database: pgDatabase(pool),
 *   databaseUrl: "postgres://localhost/shop",
 *   broker: { url: "amqp://localhost" },
 *   queues: { emails: { concurrency: 10 } },
 * });
 * worker.handleInTransaction(sendWelcome, async (job, tx) => {
 *   await saveWelcome(tx, job.payload.to);
 * });
 * await worker.run({ signal: AbortSignal.timeout(60_000) });
 */
export function createWorker<Tx>(
  options: WorkerOptions<Tx>,
  internals: Partial<Internals> = {},
): Worker<Tx> {
  return new WaybillWorker(options, internals);
}
