/**
 * One life of a worker: builds the parts, opens the doors, and closes them in order. The doors are
 * open only while the database answers and this worker's presence is alive; while they are shut,
 * deliveries that have not started go back to the queue and handlers go on.
 */

import { setTimeout as delay } from "node:timers/promises";
import { LeaseLostError, type Logger, ShutdownError } from "@waybill/core";
import { createJobFence, type Database } from "@waybill/postgres";
import {
  type BrokerConnection,
  type Consumer,
  createBrokerConnection,
  createConsumer,
  names,
  topologyOf,
} from "@waybill/rabbitmq";
import { Claims } from "./claims.ts";
import { DatabaseGate } from "./database-gate.ts";
import { InFlight } from "./in-flight.ts";
import { Intake } from "./intake.ts";
import type { Internals } from "./internals.ts";
import { JobRunner } from "./job-runner.ts";
import { type ResolvedWorkerOptions, subscriptionConcurrency } from "./options.ts";
import type { OwnDatabase } from "./own-database.ts";
import { Parking } from "./parking.ts";
import { prefetchLookMs, prefetchOf, PrefetchTuner } from "./prefetch.ts";
import { Presence } from "./presence.ts";
import type { Registry } from "./registry.ts";
import { createSettlements } from "./settlements.ts";
import { prepareTopology, waitForBroker } from "./start-broker.ts";
import type { QueueStatus, WorkerStatus } from "./status.ts";
import { packageVersion } from "./version.ts";
import { WorkQueue } from "./work-queue.ts";

/** Time that handlers have to react to the signal at the end of the grace, in milliseconds. */
const reactMs = 2_000;
/** Time to record what was handed back, in milliseconds. */
const handBackMs = 5_000;

/** What a run is made of. */
export interface WorkerRunOptions<Tx> {
  readonly options: ResolvedWorkerOptions;
  readonly database: Database<Tx>;
  readonly registry: Registry<Tx>;
  readonly internals: Internals;
  readonly ownDatabase: OwnDatabase;
  readonly logger: Logger;
}

/** See the head of the file. */
export class WorkerRun<Tx> {
  readonly #setup: WorkerRunOptions<Tx>;
  readonly #logger: Logger;
  /** Aborted at the very end: whatever still waits for the database gives up. */
  readonly #end = new AbortController();
  readonly #gate: DatabaseGate;
  readonly #presence: Presence;
  readonly #runner: JobRunner<Tx>;
  readonly #claims: Claims<Tx>;
  readonly #parking: Parking;
  readonly #inFlight = new InFlight();
  readonly #queues: readonly WorkQueue[];
  readonly #connection: BrokerConnection;
  readonly #consumers: Consumer[] = [];
  readonly #tuners: PrefetchTuner[] = [];
  #looking: NodeJS.Timeout | undefined;
  readonly #firstAlive = Promise.withResolvers<void>();
  #stopping = false;
  /** What the consumers were last told. */
  #doorsOpen = true;

  constructor(setup: WorkerRunOptions<Tx>) {
    this.#setup = setup;
    const { options, database, registry, internals, ownDatabase, logger } = setup;
    const { random } = internals;
    this.#logger = logger;
    this.#gate = new DatabaseGate({
      probe: () => ownDatabase.probe(),
      logger,
      random,
      onChange: () => this.#turnDoors(),
      signal: this.#end.signal,
    });
    const settlements = createSettlements(ownDatabase.store, this.#gate, random);
    this.#runner = new JobRunner(
      {
        database,
        fence: createJobFence(options.schema),
        logger,
        internals,
        abandonMs: options.abandonMs,
        isStopped: () => this.#end.signal.aborted,
      },
      settlements,
    );
    const bootId = (): string | undefined => this.#presence.bootId;
    const inFlight = this.#inFlight;
    this.#parking = new Parking({
      database: ownDatabase,
      settlements,
      gate: this.#gate,
      logger,
      random,
      noHandlerWindowMs: options.noHandlerWindowMs,
      bootId,
      inFlight,
    });
    this.#claims = new Claims({
      store: ownDatabase.store,
      gate: this.#gate,
      registry,
      runner: this.#runner,
      settlements,
      parking: this.#parking,
      logger,
      internals,
      crashBudget: options.crashBudget,
      bootId,
      inFlight,
    });
    this.#queues = this.#queueNames().map(
      (name) => new WorkQueue(name, options.queues[name]?.concurrency ?? subscriptionConcurrency),
    );
    for (const queue of this.#queues) this.#claims.addQueue(queue);
    this.#presence = new Presence({
      database: ownDatabase,
      name: options.name,
      version: packageVersion,
      queues: this.#queueNames(),
      leaseMs: options.leaseMs,
      logger,
      random,
      running: () => this.#runner.running,
      onAlive: () => {
        this.#firstAlive.resolve();
        this.#turnDoors();
      },
      onLost: () => {
        this.#runner.abortAll((jobId) => new LeaseLostError(jobId));
        this.#turnDoors();
      },
    });
    this.#connection = createBrokerConnection({
      url: options.broker.url,
      name: `waybill-worker ${options.name}#${process.pid}`,
      logger,
      random,
    });
  }

  status(): Pick<WorkerStatus, "workerId" | "database" | "queues"> {
    return {
      workerId: this.#presence.bootId,
      database: this.#gate.open ? "available" : "unavailable",
      queues: this.#queues.map((queue, index): QueueStatus => {
        const health = this.#consumers[index]?.health();
        return {
          queue: queue.name,
          concurrency: queue.concurrency,
          running: queue.busy,
          waiting: queue.waiting,
          consumer: health?.state ?? "waiting",
          reason: health === undefined ? "not connected yet" : health.reason,
        };
      }),
    };
  }

  /** Works until the signal aborts, then drains. Rejects only if it could not start. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await this.#open(signal);
      await aborted(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      await this.#shutDown();
    }
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { options, registry } = this.#setup;
    const { prefix, topology: mode } = options.broker;
    const subscriptions = registry.subscriptions;
    const subscribed = new Set(subscriptions.map(({ subscription }) => subscription));
    const topology = topologyOf({
      prefix,
      queues: Object.keys(options.queues).filter((queue) => !subscribed.has(queue)),
      subscriptions,
    });
    await waitForBroker(this.#connection, this.#logger, signal);
    await prepareTopology(this.#connection, topology, mode, this.#logger, signal);
    this.#presence.start();
    await Promise.race([this.#firstAlive.promise, aborted(signal)]);
    signal.throwIfAborted();
    const declare = (): Promise<void> =>
      prepareTopology(this.#connection, topology, mode, this.#logger, signal);
    for (const queue of this.#queues) this.#consume(queue, mode === "assert" ? declare : undefined);
    this.#looking = setInterval(() => {
      for (const tuner of this.#tuners) tuner.look(performance.now());
    }, prefetchLookMs);
    this.#logger.info({ queues: this.#queueNames() }, "worker started");
  }

  #consume(queue: WorkQueue, ensureQueue: (() => Promise<void>) | undefined): void {
    const { options, registry } = this.#setup;
    const settings = options.queues[queue.name];
    const intake = new Intake({
      queue,
      decoder: settings?.decoder ?? "json",
      untypedJob: settings?.untypedJob ?? registry.singleJobOf(queue.name),
      registry,
      claims: this.#claims,
      parking: this.#parking,
      inFlight: this.#inFlight,
      bootId: () => this.#presence.bootId,
      accepts: () => this.#mayTake,
    });
    const consumer = createConsumer({
      connection: this.#connection,
      queue: names(options.broker.prefix).queueName(queue.name),
      prefetch: prefetchOf(queue.concurrency),
      logger: this.#logger,
      random: this.#setup.internals.random,
      onDelivery: (delivery) => intake.take(delivery),
      ...(ensureQueue === undefined ? {} : { ensureQueue }),
    });
    this.#consumers.push(consumer);
    this.#tuners.push(new PrefetchTuner(queue, consumer));
    if (!this.#doorsOpen) void consumer.pause("database unavailable");
  }

  #queueNames(): readonly string[] {
    const { options, registry } = this.#setup;
    return [
      ...new Set([
        ...Object.keys(options.queues),
        ...registry.subscriptions.map(({ subscription }) => subscription),
      ]),
    ];
  }

  get #mayTake(): boolean {
    return this.#gate.open && this.#presence.bootId !== undefined && !this.#stopping;
  }

  #turnDoors(): void {
    const open = this.#mayTake;
    if (open) this.#claims.schedule();
    if (open === this.#doorsOpen || this.#stopping) return;
    this.#doorsOpen = open;
    if (open) {
      for (const consumer of this.#consumers) consumer.resume();
      return;
    }
    for (const consumer of this.#consumers) void consumer.pause("database unavailable");
    this.#requeueWaiting();
  }

  #requeueWaiting(): void {
    for (const queue of this.#queues) {
      for (const { delivery } of queue.takeAll()) delivery.requeue();
    }
  }

  async #shutDown(): Promise<void> {
    const { options, ownDatabase } = this.#setup;
    this.#stopping = true;
    clearInterval(this.#looking);
    this.#claims.stop();
    this.#logger.info({ running: this.#runner.running }, "worker stopping");
    const paused = this.#consumers.map((consumer) => consumer.pause("worker stopping"));
    this.#requeueWaiting();
    await within(3_000, Promise.all(paused));
    this.#requeueWaiting();

    const idle = this.#claims.idle();
    if (!(await within(options.graceMs, idle))) {
      this.#logger.warn({ running: this.#runner.running }, "grace is over");
      this.#runner.abortAll(
        (jobId) =>
          new ShutdownError(
            `Cannot go on with job ${jobId}: the worker shuts down. It is handed back and runs again.`,
          ),
      );
      if (!(await within(reactMs, idle))) {
        this.#runner.abandonAll();
        await within(handBackMs, idle);
      }
    }
    this.#end.abort(new ShutdownError("Cannot record anything more: the worker has shut down."));
    // Sends the last acks; what is not settled goes back to the queue.
    await Promise.all(this.#consumers.map((consumer) => consumer.close()));
    await this.#connection.close();
    await this.#presence.stop();
    await within(3_000, ownDatabase.close());
    this.#logger.info({}, "worker stopped");
  }
}

/** Resolves when the signal has aborted. */
async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  await promise;
}

/** Waits for at most `milliseconds`; false if that was not enough. */
async function within(milliseconds: number, work: Promise<unknown>): Promise<boolean> {
  const timer = new AbortController();
  const timeout = delay(milliseconds, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([work.then(() => true), timeout]);
  } finally {
    timer.abort();
  }
}
