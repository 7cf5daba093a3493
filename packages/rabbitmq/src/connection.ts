/**
 * Keeps one connection to the broker open: a single loop connects, waits for the end, and connects
 * again. Channels, confirms and consumers are not carried over; each is bound to a generation and
 * its owner opens a new one when {@link BrokerConnection.onReady} calls.
 *
 * amqplib's own recovery is not used: it loses errors during set-up and knows one URL only.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Channel, ConfirmChannel } from "amqplib";
import { BrokerUnavailableError, type Logger } from "@waybill/core";
import { type BrokerCapabilities, capabilitiesOf } from "./capabilities.ts";
import { adoptChannel, type BrokerChannel, callTimeoutMs, within } from "./channel.ts";
import { connectFailure, connectionLoss } from "./connection-errors.ts";
import { type Endpoint, parseEndpoints, shuffled } from "./endpoint.ts";
import { type Link, openLink } from "./link.ts";
import { reconnectDelayMs } from "./reconnect-delay.ts";

/** `blocked`: connected, but the broker has stopped reading from it because of an alarm. */
export type BrokerConnectionState = "connecting" | "ready" | "blocked" | "closed";

/** Options of {@link createBrokerConnection}. */
export interface BrokerConnectionOptions {
  /** One broker, or the nodes of a cluster: tried in a random order, the next one after a failure. */
  readonly url: string | readonly string[];
  /** Shown as the connection's name in the management UI: "waybill-relay host#pid (publish)". */
  readonly name: string;
  readonly logger: Logger;
  /**
   * Silence of 1.4 times as many seconds ends the connection.
   * @default 10
   */
  readonly heartbeatSeconds?: number | undefined;
  /**
   * Limit of one connection attempt, in milliseconds.
   * @default 10000
   */
  readonly connectTimeoutMs?: number | undefined;
  /** Source of jitter and host order. @default Math.random */
  readonly random?: (() => number) | undefined;
}

/** A connection that comes back by itself. */
export interface BrokerConnection {
  readonly name: string;
  readonly state: BrokerConnectionState;
  /** Number of the present or last connection; 0 before the first. */
  readonly generation: number;
  /** Why the last attempt failed or the last connection ended; undefined while connected. */
  readonly lastError: BrokerUnavailableError | undefined;
  /** What the broker can do; kept from the last connection, undefined before the first. */
  readonly capabilities: BrokerCapabilities | undefined;
  /** Resolves when connected; rejects only when closed, or with the signal's reason. */
  ready(signal?: AbortSignal): Promise<void>;
  /** Like {@link ready}, but rejects with the reason once every host was tried and has failed. */
  tryReady(signal?: AbortSignal): Promise<void>;
  /**
   * Opens a channel on the present connection.
   *
   * @throws BrokerUnavailableError if there is none, or it does not answer within 10 seconds
   */
  openChannel(): Promise<BrokerChannel>;
  /** Like {@link openChannel}, with publisher confirms on. */
  openConfirmChannel(): Promise<BrokerChannel<ConfirmChannel>>;
  /** Calls back on each change of state. Returns the function that stops it. */
  onStateChange(listener: (state: BrokerConnectionState) => void): () => void;
  /** Calls back on each new connection, and at once if connected now. Returns its stop function. */
  onReady(listener: (generation: number) => void): () => void;
  /** Closes for good. Never rejects, never takes longer than `timeoutMs` (3000). */
  close(timeoutMs?: number): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  readonly firstRoundOnly: boolean;
}

class Keeper implements BrokerConnection {
  readonly name: string;
  generation = 0;
  lastError: BrokerUnavailableError | undefined;
  capabilities: BrokerCapabilities | undefined;
  #state: BrokerConnectionState = "connecting";
  #link: Link | undefined;
  #closing: Promise<void> | undefined;
  readonly #loop: Promise<void>;
  readonly #stop = new AbortController();
  readonly #endpoints: readonly Endpoint[];
  readonly #logger: Logger;
  readonly #random: () => number;
  readonly #heartbeatSeconds: number;
  readonly #connectTimeoutMs: number;
  readonly #waiters = new Set<Waiter>();
  readonly #stateListeners = new Set<(state: BrokerConnectionState) => void>();
  readonly #readyListeners = new Set<(generation: number) => void>();

  constructor(options: BrokerConnectionOptions) {
    this.name = options.name;
    this.#random = options.random ?? Math.random;
    this.#endpoints = shuffled(parseEndpoints(options.url), this.#random);
    this.#logger = options.logger.child({ connection: options.name });
    this.#heartbeatSeconds = options.heartbeatSeconds ?? 10;
    this.#connectTimeoutMs = options.connectTimeoutMs ?? 10_000;
    this.#loop = this.#run();
  }

  get state(): BrokerConnectionState {
    return this.#state;
  }

  async #run(): Promise<void> {
    let failures = 0;
    let downSince = performance.now();
    for (let turn = 0; !this.#stop.signal.aborted; turn += 1) {
      const endpoint = this.#endpoints[turn % this.#endpoints.length];
      if (endpoint === undefined) return;
      const link = await this.#connect(endpoint, failures);
      if (link === undefined) {
        failures += 1;
        // Every host has had its chance: whoever asked for one round only is told.
        if (failures >= this.#endpoints.length) this.#rejectFirstRound();
      } else {
        const readySince = performance.now();
        await this.#serve(link);
        const now = performance.now();
        // A connection that flaps keeps its backoff; only a stable one starts afresh.
        if (now - readySince > 30_000) failures = 0;
        else failures += 1;
        downSince = now;
      }
      const delayMs = reconnectDelayMs({
        failures,
        downMs: performance.now() - downSince,
        needsOperator: this.lastError?.needsOperator ?? false,
        random: this.#random,
      });
      await delay(delayMs, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }

  async #connect(endpoint: Endpoint, failures: number): Promise<Link | undefined> {
    try {
      return await openLink(endpoint, {
        name: this.name,
        heartbeatSeconds: this.#heartbeatSeconds,
        connectTimeoutMs: this.#connectTimeoutMs,
        signal: this.#stop.signal,
        onBlocked: (reason) => this.#blocked(reason),
        onHandlerError: (err) => this.#logger.error({ err }, "broker event handler failed"),
      });
    } catch (error) {
      if (this.#stop.signal.aborted) return undefined;
      const previous = this.lastError?.message;
      this.lastError = connectFailure(error, endpoint);
      const fields = { err: this.lastError, attempts: failures + 1 };
      // The same reason again and again is one line, not one per attempt.
      if (this.lastError.message === previous)
        this.#logger.debug(fields, "broker still unreachable");
      else if (this.lastError.needsOperator) this.#logger.error(fields, "broker unreachable");
      else this.#logger.warn(fields, "broker unreachable");
      return undefined;
    }
  }

  async #serve(link: Link): Promise<void> {
    this.#link = link;
    if (this.#stop.signal.aborted) return;
    this.generation += 1;
    this.lastError = undefined;
    this.capabilities = capabilitiesOf(link.model.connection.serverProperties.version);
    this.#logger.info(
      {
        broker: link.endpoint.display,
        version: this.capabilities.version,
        generation: this.generation,
      },
      "broker connected",
    );
    this.#setState(link.blocked === undefined ? "ready" : "blocked");
    for (const waiter of this.#waiters) waiter.resolve();
    this.#waiters.clear();
    for (const listener of this.#readyListeners) this.#notify(() => listener(this.generation));
    await link.ended;
    if (this.#stop.signal.aborted) return;
    this.#link = undefined;
    this.lastError = connectionLoss(link.error, link.endpoint);
    this.#logger.warn(
      { err: this.lastError, generation: this.generation },
      "broker connection lost",
    );
    this.#setState("connecting");
  }

  #blocked(reason: string | undefined): void {
    if (this.#state === "closed") return;
    if (reason === undefined) this.#logger.info({}, "broker accepts messages again");
    else this.#logger.warn({ reason }, "broker blocks publishing");
    this.#setState(reason === undefined ? "ready" : "blocked");
  }

  #setState(state: BrokerConnectionState): void {
    if (state === this.#state) return;
    this.#state = state;
    for (const listener of this.#stateListeners) this.#notify(() => listener(state));
  }

  #notify(call: () => void): void {
    try {
      call();
    } catch (err) {
      this.#logger.error({ err }, "broker event handler failed");
    }
  }

  #rejectFirstRound(): void {
    const error = this.lastError;
    if (error === undefined) return;
    for (const waiter of this.#waiters) {
      if (!waiter.firstRoundOnly) continue;
      this.#waiters.delete(waiter);
      waiter.reject(error);
    }
  }

  #closedError(): BrokerUnavailableError {
    return new BrokerUnavailableError(
      `Cannot use broker connection "${this.name}": it is closed. Create another one.`,
      false,
    );
  }

  async #wait(firstRoundOnly: boolean, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.#state === "ready" || this.#state === "blocked") return;
    if (this.#state === "closed") throw this.#closedError();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { resolve, reject, firstRoundOnly };
    const abort = (): void => reject(signal?.reason);
    this.#waiters.add(waiter);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      await promise;
    } finally {
      this.#waiters.delete(waiter);
      signal?.removeEventListener("abort", abort);
    }
  }

  ready(signal?: AbortSignal): Promise<void> {
    return this.#wait(false, signal);
  }

  tryReady(signal?: AbortSignal): Promise<void> {
    return this.#wait(true, signal);
  }

  openChannel(): Promise<BrokerChannel> {
    return this.#open((link) => link.model.createChannel());
  }

  openConfirmChannel(): Promise<BrokerChannel<ConfirmChannel>> {
    return this.#open((link) => link.model.createConfirmChannel());
  }

  async #open<C extends Channel>(create: (link: Link) => Promise<C>): Promise<BrokerChannel<C>> {
    if (this.#state === "closed") throw this.#closedError();
    const link = this.#link;
    if (link === undefined || !link.open) {
      throw (
        this.lastError ??
        new BrokerUnavailableError(
          `Cannot open a channel: "${this.name}" is not connected yet. Wait for ready().`,
          false,
        )
      );
    }
    const { generation } = this;
    const raw = await within(link, "open a channel", callTimeoutMs, create(link));
    return adoptChannel(raw, link, generation, (err) =>
      this.#logger.error({ err }, "broker event handler failed"),
    );
  }

  onStateChange(listener: (state: BrokerConnectionState) => void): () => void {
    this.#stateListeners.add(listener);
    return () => this.#stateListeners.delete(listener);
  }

  onReady(listener: (generation: number) => void): () => void {
    this.#readyListeners.add(listener);
    if (this.#link?.open === true) this.#notify(() => listener(this.generation));
    return () => this.#readyListeners.delete(listener);
  }

  close(timeoutMs = 3_000): Promise<void> {
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  async #close(timeoutMs: number): Promise<void> {
    this.#stop.abort();
    this.#setState("closed");
    for (const waiter of this.#waiters) waiter.reject(this.#closedError());
    this.#waiters.clear();
    // A handshake that just succeeded still hands its link over, so look after the loop has ended.
    const link = this.#link;
    if (link !== undefined) await link.close(timeoutMs);
    await this.#loop;
    if (this.#link !== link) await this.#link?.close(timeoutMs);
    this.#logger.debug({}, "broker connection closed");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Creates a connection and begins to connect at once; use {@link BrokerConnection.ready} to wait.
 *
 * @throws ConfigError for a URL that is not amqp:// or amqps://
 */
export function createBrokerConnection(options: BrokerConnectionOptions): BrokerConnection {
  return new Keeper(options);
}
