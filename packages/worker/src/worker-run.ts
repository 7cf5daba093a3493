/**
 * One life of a worker: builds the parts, opens the doors, and closes them in order. The doors are
 * open only while the database answers and this worker's presence is alive; while they are shut,
 * deliveries that have not started go back to the queue and handlers go on.
 *
 * A life ends by the signal, by an operator's request, by its own limits, or by an error that no job
 * can be blamed for; always in the same way.
 */

import { LeaseLostError, type Logger, ShutdownError } from "@waybill/core";
import { createJobFence, type Database } from "@waybill/postgres";
import {
  type BrokerConnection,
  createBrokerConnection,
  type Delivery,
  names,
  topologyOf,
} from "@waybill/rabbitmq";
import { authenticityOf } from "./authenticity.ts";
import { Batches } from "./batch/batches.ts";
import { readCheckpoint } from "./checkpoints.ts";
import { Claims } from "./claims.ts";
import { DatabaseGate } from "./database-gate.ts";
import { Entrances } from "./entrances.ts";
import { FlowControl } from "./flow-control.ts";
import { InFlight } from "./in-flight.ts";
import { Intake } from "./intake.ts";
import type { Internals } from "./internals.ts";
import { JobRunner } from "./job-runner.ts";
import { News } from "./news.ts";
import { type ResolvedWorkerOptions, subscriptionConcurrency } from "./options.ts";
import type { OwnDatabase } from "./own-database.ts";
import { Parking } from "./parking.ts";
import { Presence } from "./presence.ts";
import { ProgressWriter } from "./progress.ts";
import { watchWear } from "./recycle.ts";
import type { Registry } from "./registry.ts";
import { Requests, requestsMs } from "./requests.ts";
import { createSettlements, type Settlements } from "./settlements.ts";
import { shutdownError } from "./shutdown-error.ts";
import { brokerHeartbeatSeconds, prepareTopology, waitForBroker } from "./start-broker.ts";
import type { WorkerStatus } from "./status.ts";
import { StrayErrors } from "./stray-errors.ts";
import { packageVersion } from "./version.ts";
import { aborted, within } from "./waiting.ts";
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
  /** Aborted when the worker ends by itself. */
  readonly #ownEnd = new AbortController();
  /** Aborted at the very end: whatever still waits for the database gives up. */
  readonly #end = new AbortController();
  readonly #gate: DatabaseGate;
  readonly #presence: Presence;
  readonly #news: News;
  readonly #batches = new Batches<Tx>((queue) => this.#claims.mayStart(queue));
  readonly #runner: JobRunner<Tx>;
  readonly #claims: Claims<Tx>;
  readonly #parking: Parking;
  readonly #inFlight = new InFlight();
  readonly #queues: readonly WorkQueue[];
  readonly #connection: BrokerConnection;
  readonly #entrances: Entrances;
  readonly #flow: FlowControl;
  readonly #requests: Requests;
  readonly #strayErrors: StrayErrors;
  readonly #firstAlive = Promise.withResolvers<void>();
  #recycling: NodeJS.Timeout | undefined;
  #draining = false;
  #stopping = false;
  /** An error outside any job: the process is to be started anew. */
  #strayError: Error | undefined;

  constructor(setup: WorkerRunOptions<Tx>) {
    this.#setup = setup;
    const { options, registry, internals, ownDatabase, logger } = setup;
    const { random } = internals;
    this.#logger = logger;
    this.#gate = new DatabaseGate({
      probe: () => ownDatabase.probe(),
      logger,
      random,
      onChange: () => this.#turnDoors(),
      signal: this.#end.signal,
    });
    const { store } = ownDatabase;
    const settlements = createSettlements(store, this.#gate, internals);
    this.#news = new News(store, logger);
    this.#runner = this.#createRunner(settlements);
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
      store,
      gate: this.#gate,
      registry,
      runner: this.#runner,
      settlements,
      parking: this.#parking,
      logger,
      internals,
      crashBudget: options.crashBudget,
      orphans: options.orphans,
      bootId,
      inFlight,
      isHeldBack: ({ row, incoming, registration }) =>
        this.#flow.view.isHeldBack(row.queue, incoming.envelope, registration.dependsOn),
      onRound: () => this.#batches.look(),
    });
    this.#queues = this.#queueNames().map(
      (name) => new WorkQueue(name, options.queues[name]?.concurrency ?? subscriptionConcurrency),
    );
    for (const queue of this.#queues) this.#claims.addQueue(queue);
    this.#presence = this.#createPresence();
    this.#connection = createBrokerConnection({
      url: options.broker.url,
      name: `waybill-worker ${options.name}#${process.pid}`,
      heartbeatSeconds: brokerHeartbeatSeconds(options.heartbeatMs),
      logger,
      random,
    });
    this.#entrances = new Entrances({
      queues: this.#queues,
      connection: this.#connection,
      logger,
      random,
      holdMs: options.holdMs,
      queueName: (queue) => names(options.broker.prefix).queueName(queue),
    });
    this.#flow = new FlowControl({
      ...setup,
      queues: this.#queues,
      bootId,
      random,
      turn: (queue, reason) => this.#entrances.turn(queue, reason),
      onSlots: (queue) => {
        this.#entrances.refit(queue);
        this.#claims.refit(queue);
      },
    });
    this.#requests = new Requests({
      store,
      logger,
      bootId,
      running: () => this.#runner.runningFor(requestsMs),
      onCancel: (request) => this.#runner.cancel(request),
      onLost: (lost) => this.#runner.lose(lost),
      onStop: (stop, stopper) => this.#onStop(stop, stopper),
      onWatched: (watched) => (this.#news.watched = watched),
    });
    this.#strayErrors = new StrayErrors({
      logger,
      onUnattributed: (error) => {
        this.#strayError ??= error;
        this.#endBecause("of an error outside any job");
      },
    });
  }

  #createRunner(settlements: Settlements): JobRunner<Tx> {
    const { options, database, internals, ownDatabase } = this.#setup;
    const { store } = ownDatabase;
    const logger = this.#logger;
    return new JobRunner({
      environment: {
        database,
        fence: createJobFence(options.schema),
        logger,
        internals,
        abandonMs: options.abandonMs,
        isStopped: () => this.#end.signal.aborted,
        readCheckpoint: (job) => readCheckpoint(store, this.#gate, job),
        progress: new ProgressWriter(store, logger, (jobId) => this.#news.changed(jobId)),
        batches: this.#batches,
        encryption: options.encryption,
      },
      settlements,
      news: this.#news,
      blocksOrder: (envelope, attempt) => this.#flow.view.blocksOrder(envelope, attempt),
      onEnd: (...ended) => this.#flow.outcomes.note(...ended),
      holdMs: options.holdMs,
      onLeased: ({ key }) => void this.#inFlight.lease(key)?.delivery.ack(),
    });
  }

  #createPresence(): Presence {
    const { options, ownDatabase } = this.#setup;
    return new Presence({
      database: ownDatabase,
      name: options.name,
      version: packageVersion,
      queues: this.#queueNames(),
      leaseMs: options.leaseMs,
      heartbeatMs: options.heartbeatMs,
      holdMs: options.holdMs,
      blockedWarnMs: options.blockedWarnMs,
      blockedMaxMs: options.blockedMaxMs,
      logger: this.#logger,
      running: () => this.#runner.running,
      finished: () => this.#runner.finished,
      state: () => (this.#draining || this.#stopping ? "draining" : "running"),
      onAlive: () => {
        this.#flow.reset();
        this.#firstAlive.resolve();
        this.#turnDoors();
      },
      onLost: () => {
        this.#flow.reset();
        this.#runner.stopAll((jobId) => new LeaseLostError(jobId));
        this.#turnDoors();
      },
    });
  }

  status(): Omit<WorkerStatus, "state"> {
    return {
      workerId: this.#presence.bootId,
      draining: this.#draining || this.#stopping,
      database: this.#gate.open ? "available" : "unavailable",
      running: this.#runner.running,
      finishedJobs: this.#runner.finished,
      leftBehind: this.#runner.leftBehind,
      queues: this.#entrances.status(),
    };
  }

  /**
   * Works until the signal aborts or the worker ends by itself, then drains. Rejects if it could not
   * start, or after an error outside any job.
   */
  async run(signal: AbortSignal, hurrySignal: AbortSignal | undefined): Promise<void> {
    const end = AbortSignal.any([signal, this.#ownEnd.signal]);
    try {
      await this.#open(end);
      await aborted(end);
    } catch (error) {
      if (!end.aborted) throw error;
    } finally {
      try {
        await this.#shutDown(hurrySignal);
      } finally {
        this.#strayErrors.remove();
      }
    }
    if (this.#strayError !== undefined) throw this.#strayError;
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
    this.#strayErrors.install();
    await waitForBroker(this.#connection, this.#logger, signal);
    const declare = (): Promise<void> =>
      prepareTopology(this.#connection, topology, mode, this.#logger, signal);
    await declare();
    await this.#flow.begin(signal);
    this.#presence.start();
    await Promise.race([this.#firstAlive.promise.then(() => this.#flow.start()), aborted(signal)]);
    signal.throwIfAborted();
    this.#requests.start();
    this.#entrances.start(
      (queue) => this.#receiverOf(queue),
      mode === "assert" ? declare : undefined,
    );
    this.#recycling = watchWear(
      options.recycle,
      this.#setup.internals.random,
      () => ({ finishedJobs: this.#runner.finished, leftBehind: this.#runner.leftBehind }),
      (reason) => this.#endBecause(reason),
    );
    this.#logger.info({ queues: this.#queueNames() }, "worker started");
  }

  #receiverOf(queue: WorkQueue): (delivery: Delivery) => void {
    const { options, registry } = this.#setup;
    const settings = options.queues[queue.name];
    const intake = new Intake({
      queue,
      decoder: settings?.decoder ?? "json",
      untypedJob: settings?.untypedJob ?? registry.singleJobOf(queue.name),
      authenticity: authenticityOf(queue.name, options, registry),
      registry,
      claims: this.#claims,
      parking: this.#parking,
      inFlight: this.#inFlight,
      bootId: () => this.#presence.bootId,
      governs: () => this.#flow.view.governs(queue.name),
      accepts: () => this.#mayTake && !queue.isShut,
    });
    return (delivery) => intake.take(delivery);
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
    return (
      this.#gate.open && this.#presence.bootId !== undefined && !this.#draining && !this.#stopping
    );
  }

  #turnDoors(): void {
    if (this.#gate.open && this.#presence.bootId !== undefined) {
      this.#claims.schedule();
      this.#entrances.open("database unavailable");
    } else {
      void this.#entrances.shut("database unavailable");
    }
  }

  #onStop(stop: "drain" | "restart", stopper: string | null): void {
    if (stop === "restart") this.#endBecause(`${stopper ?? "somebody"} asked for a restart`);
    if (this.#draining) return;
    this.#draining = true;
    this.#logger.info({ stop, stopper }, "worker draining");
    void this.#entrances.shut("worker draining");
  }

  #endBecause(reason: string): void {
    if (this.#ownEnd.signal.aborted) return;
    this.#logger.info({ reason }, "worker ends by itself");
    this.#ownEnd.abort();
  }

  async #shutDown(hurry: AbortSignal | undefined): Promise<void> {
    const { options, ownDatabase } = this.#setup;
    this.#stopping = true;
    clearInterval(this.#recycling);
    this.#claims.stop();
    this.#batches.stop(shutdownError);
    this.#logger.info({ running: this.#runner.running }, "worker stopping");
    await within(3_000, this.#entrances.shut("worker stopping"));

    const idle = this.#claims.idle();
    if (!(await within(options.graceMs, idle, hurry))) {
      const why = hurry?.aborted === true ? "grace is cut short" : "grace is over";
      this.#logger.warn({ running: this.#runner.running }, why);
      this.#runner.abortAll(shutdownError);
      if (!(await within(reactMs, idle))) {
        this.#runner.abandonAll();
        await within(handBackMs, idle);
      }
    }
    await within(1_000, Promise.all([this.#requests.stop(), this.#flow.stop()]));
    await within(1_000, this.#news.flush());
    this.#end.abort(new ShutdownError("Cannot record anything more: the worker has shut down."));
    await this.#entrances.close();
    await this.#connection.close();
    await this.#presence.stop();
    await within(3_000, ownDatabase.close());
    this.#logger.info({}, "worker stopped");
  }
}
