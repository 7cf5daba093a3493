import { hostname } from "node:os";
import {
  BrokerUnavailableError,
  DatabaseUnavailableError,
  newJobId,
  redactUrl,
  safeLogger,
  SchemaVersionError,
  type Logger,
} from "@waybill/core";
import { operatingError, requireSchemaVersion, sqlStateOf } from "@waybill/postgres";
import { type BrokerConnection, createBrokerConnection } from "@waybill/rabbitmq";
import { TermLostError } from "./cursor-saver.ts";
import { Destinations } from "./destinations.ts";
import type { RelayInternals } from "./internals.ts";
import { lead, type LeadContext, type LeadView, type TakenTerm } from "./lead.ts";
import { type RelayOptions, type ResolvedRelayOptions, resolveRelayOptions } from "./options.ts";
import { pause, retryDelayMs } from "./pause.ts";
import { openRelayDatabase, type RelayDatabase } from "./relay-database.ts";

/**
 * `starting`: has not reached database and broker yet; `standby`: another relay holds the term;
 * `leading`: publishes; `recovering`: held the term and begins again after a failure; `stopped`.
 */
export type RelayState = "starting" | "standby" | "leading" | "recovering" | "stopped";

/** What a relay is doing. */
export interface RelayStatus {
  readonly state: RelayState;
  /** Number of the term that it holds; undefined while it does not. */
  readonly term: string | undefined;
  /** How it learns of new jobs; undefined while it does not lead. */
  readonly wakeUp: "listening" | "polling" | undefined;
  /** `blocked`: the broker has an alarm and takes nothing. */
  readonly broker: "connecting" | "ready" | "blocked" | "closed";
  /** Rows that were read and are neither confirmed nor parked. */
  readonly unsettled: number;
  /** Age of the oldest of them, in milliseconds; 0 for none. */
  readonly lagMs: number;
  /** Messages confirmed, since this relay was created. */
  readonly published: number;
  /** Messages published again because their outcome was not known. */
  readonly republished: number;
  /** Messages put aside because the broker did not take them. */
  readonly parked: number;
  /** What is wrong now, in one sentence; undefined: nothing. */
  readonly lastError: string | undefined;
}

/** A relay; see {@link createRelay}. */
export interface Relay extends AsyncDisposable {
  /**
   * Runs until the signal: then it stops reading, waits for outstanding confirms, saves its position
   * and gives up its term. Survives any outage of database and broker.
   *
   * @throws SchemaVersionError where the schema is missing or has another version
   * @throws DatabaseUnavailableError, BrokerUnavailableError at the start, where waiting cannot help:
   * a refused password, a database or virtual host that does not exist
   */
  run(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  status(): RelayStatus;
}

/** States that waiting does not change: login refused, database missing, no right. */
const hopeless = new Set(["28000", "28P01", "3D000", "42501"]);

class OutboxRelay implements Relay {
  readonly #options: ResolvedRelayOptions;
  readonly #internals: RelayInternals;
  readonly #logger: Logger;
  readonly #id = newJobId();
  readonly #stop = new AbortController();
  readonly #counts = { published: 0, republished: 0, parked: 0 };
  #running: Promise<void> | undefined;
  #state: RelayState = "starting";
  #term: string | undefined;
  #view: LeadView | undefined;
  #connection: BrokerConnection | undefined;
  #databaseProblem: string | undefined;
  #topologyProblem: string | undefined;

  constructor(options: ResolvedRelayOptions, internals: RelayInternals) {
    this.#options = options;
    this.#internals = internals;
    this.#logger = safeLogger(options.logger).child({ component: "relay", relay: options.name });
  }

  status(): RelayStatus {
    const { dispatcher, wakeUp } = this.#view ?? {};
    const oldest = dispatcher?.oldestAt;
    const brokerProblem = this.#connection?.lastError?.message;
    return {
      state: this.#state,
      term: this.#term,
      wakeUp: wakeUp?.mode,
      broker: this.#connection?.state ?? "connecting",
      unsettled: dispatcher?.unsettled ?? 0,
      lagMs: oldest === undefined ? 0 : Math.max(0, Date.now() - oldest.getTime()),
      ...this.#counts,
      lastError: this.#databaseProblem ?? brokerProblem ?? this.#topologyProblem,
    };
  }

  run({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (signal?.aborted === true) this.#stop.abort();
    signal?.addEventListener("abort", () => this.#stop.abort(), { once: true });
    this.#running ??= this.#run();
    return this.#running;
  }

  get #random(): () => number {
    return this.#internals.random ?? Math.random;
  }

  async #run(): Promise<void> {
    const { broker, name } = this.#options;
    const { signal } = this.#stop;
    let database: RelayDatabase | undefined;
    let following: Promise<void> | undefined;
    const connection = createBrokerConnection({
      url: broker.url,
      name: `waybill-relay ${name} ${hostname()}#${process.pid} (publish)`,
      logger: this.#logger,
      random: this.#random,
    });
    this.#connection = connection;
    try {
      [database] = await Promise.all([this.#openDatabase(), this.#reachBroker(connection)]);
      if (database === undefined) return;
      const destinations = new Destinations({
        connection,
        prefix: broker.prefix,
        mode: broker.topology,
        logger: this.#logger,
        onReady: () => this.#view?.dispatcher.pump(),
        onProblem: (problem) => {
          this.#topologyProblem = problem;
        },
      });
      following = destinations.run(signal);
      await this.#serve({
        options: this.#options,
        database,
        connection,
        destinations,
        counts: this.#counts,
        logger: this.#logger,
        random: this.#random,
        failpoint: (point) => this.#internals.failpoint?.(point),
        settleMs: this.#internals.settleMs,
        onLeading: (view) => {
          this.#view = view;
        },
      });
    } finally {
      this.#stop.abort();
      await connection.close();
      await following;
      await database?.close();
      this.#state = "stopped";
      this.#logger.info({}, "relay stopped");
    }
  }

  /** Waits for the database, as long as waiting can help; undefined when stopped meanwhile. */
  async #openDatabase(): Promise<RelayDatabase | undefined> {
    const { databaseUrl, schema, name } = this.#options;
    for (let failures = 1; !this.#stop.signal.aborted; failures += 1) {
      let database: RelayDatabase | undefined;
      try {
        database = await openRelayDatabase({ databaseUrl, schema, name, logger: this.#logger });
        await requireSchemaVersion(database.pool, schema);
        this.#databaseProblem = undefined;
        if (failures > 1) this.#logger.info({}, "database reached");
        return database;
      } catch (error) {
        await database?.close();
        const known = operatingError("start the relay", schema, error);
        if (error instanceof SchemaVersionError) throw error;
        if (hopeless.has(sqlStateOf(error) ?? "")) throw known ?? error;
        this.#noteDatabaseProblem(known ?? error, failures);
        await pause(retryDelayMs(failures, 200, 5_000, this.#random), this.#stop.signal);
      }
    }
    return undefined;
  }

  #noteDatabaseProblem(error: unknown, failures: number): void {
    const message = error instanceof Error ? error.message : String(error);
    this.#databaseProblem = message;
    const fields = { err: error, url: redactUrl(this.#options.databaseUrl) };
    const known = error instanceof DatabaseUnavailableError;
    // Once; the rest only where somebody looks for it.
    if (failures === 1)
      this.#logger.error(fields, known ? message : "database unavailable, retrying");
    else this.#logger.debug({ ...fields, failures }, "database still unavailable");
  }

  /** Waits for the first answer of the broker; goes on without one, unless an operator is needed. */
  async #reachBroker(connection: BrokerConnection): Promise<void> {
    try {
      await connection.tryReady(this.#stop.signal);
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      if (error instanceof BrokerUnavailableError && error.needsOperator) {
        // Ends the wait for the database too.
        this.#stop.abort();
        throw error;
      }
      this.#logger.error({ err: error }, "broker unavailable, retrying");
    }
  }

  /** Stands by and leads in turns, until stopped. */
  async #serve(context: LeadContext): Promise<void> {
    const { signal } = this.#stop;
    const { database, connection } = context;
    let failures = 0;
    while (!signal.aborted) {
      try {
        // A relay that cannot publish leaves the term to one that can.
        await connection.ready(signal);
        const taken = await this.#takeTerm(database);
        this.#databaseProblem = undefined;
        failures = 0;
        if (taken === undefined) continue;
        await this.#leadTerm(context, taken);
      } catch (error) {
        if (signal.aborted) break;
        failures += 1;
        this.#state = "recovering";
        if (error instanceof TermLostError) this.#logger.warn({}, "term lost to another relay");
        else {
          await this.#checkSchema(database, error);
          const known = operatingError("relay", this.#options.schema, error);
          this.#noteDatabaseProblem(known ?? error, failures);
        }
        await pause(retryDelayMs(failures, 100, 3_000, this.#random), signal);
      }
    }
  }

  async #leadTerm(context: LeadContext, taken: TakenTerm): Promise<void> {
    this.#state = "leading";
    this.#term = taken.epoch;
    const logger = this.#logger.child({ term: taken.epoch });
    logger.info({}, "relay leads");
    try {
      await lead({ ...context, logger }, taken, this.#stop.signal);
    } finally {
      this.#term = undefined;
      // Where the term is lost already, this changes nothing.
      await context.database.store.releaseTerm(taken.epoch).catch(() => undefined);
    }
  }

  /** A table that has vanished is no outage. */
  async #checkSchema(database: RelayDatabase, error: unknown): Promise<void> {
    const state = sqlStateOf(error);
    if (state !== "42P01" && state !== "3F000" && state !== "42703") return;
    await requireSchemaVersion(database.pool, this.#options.schema);
  }

  /** Takes the term, or waits a while for the one who holds it. */
  async #takeTerm({ store }: RelayDatabase): Promise<TakenTerm | undefined> {
    const { name, leaseMs, idlePollMs } = this.#options;
    const { holder, remainingMs } = await store.watchTerm();
    if (remainingMs > 0) {
      if (this.#state !== "standby") {
        this.#logger.info({ holder }, "another relay leads, standing by");
      }
      this.#state = "standby";
      // Not all standbys at the same instant, and soon after a clean release.
      await pause(Math.min(remainingMs + 1, idlePollMs) + this.#random() * 10, this.#stop.signal);
      return undefined;
    }
    const rowWasMissing = await store.ensureRelay();
    const takenAtMs = performance.now();
    const epoch = await store.takeTerm(this.#id, name, leaseMs);
    return epoch === undefined ? undefined : { epoch, takenAtMs, rowWasMissing };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    // Who called run() hears of its failure there.
    await this.#running?.catch(() => undefined);
  }
}

/**
 * Creates a relay: it publishes the outbox to RabbitMQ and keeps the house (timers, partitions,
 * retention, jobs of dead workers). Run as many as you like; one of them works at a time.
 *
 * @throws ConfigError that names every problem at once
 */
export function createRelay(options: RelayOptions, internals: RelayInternals = {}): Relay {
  return new OutboxRelay(resolveRelayOptions(options), internals);
}
