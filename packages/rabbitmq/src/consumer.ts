/**
 * Keeps one consumer on one queue, whatever happens to channel, connection or queue. A loop opens
 * a session, waits for its end, and opens the next one; it never gives up and never reports
 * `consuming` without the broker's consume-ok.
 *
 * A session to which nothing comes is renewed now and then, since the broker may have forgotten it: where a quorum
 * queue is deleted and declared anew before the channel has heard of it, RabbitMQ 3.10 moves the consumer to the new
 * queue without a word, hands messages out to it, and passes none on. Nothing that a client can ask tells that
 * from a queue without work.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@waybill/core";
import { codeOf, textOf } from "./connection-errors.ts";
import type { BrokerConnection } from "./connection.ts";
import {
  ConsumeSession,
  type Delivery,
  type SessionEnd,
  type SettleCounts,
} from "./consume-session.ts";

/** `waiting`: wants to consume and cannot, for the reason given. */
export type ConsumerState = "consuming" | "waiting" | "paused";

/** Options of {@link createConsumer}. */
export interface ConsumerOptions {
  readonly connection: BrokerConnection;
  /** Full name at the broker. */
  readonly queue: string;
  /** Deliveries held and unsettled at a time; 1 to 2000. */
  readonly prefetch: number;
  /** Shown in the management UI; the broker makes one up if left out. */
  readonly consumerTag?: string | undefined;
  readonly logger: Logger;
  /** Called for each delivery. Must not throw; if it does, the delivery is requeued. */
  readonly onDelivery: (delivery: Delivery) => void;
  readonly onStateChange?: ((state: ConsumerState, reason?: string) => void) | undefined;
  /** Called when the queue does not exist, before the next try. A rejection is only logged. */
  readonly ensureQueue?: (() => Promise<void>) | undefined;
  /** Source of jitter. @default Math.random */
  readonly random?: (() => number) | undefined;
  /**
   * Milliseconds without a delivery after which the session is renewed, a quarter more or less by chance.
   *
   * @default 20000
   */
  readonly renewMs?: number | undefined;
}

const renewDefaultMs = 20_000;
/** Milliseconds until a queue that has gone may be declared again: other consumers' channels hear of it first. */
const cancelledMs = 250;

/** What a consumer is doing, for health and metrics. */
export interface ConsumerHealth {
  readonly state: ConsumerState;
  /** Why it is waiting or paused. */
  readonly reason: string | undefined;
  /** Deliveries held and not settled, those of a paused consumer included. */
  readonly unsettled: number;
  /** Settlements of deliveries whose channel had ended, since the start. */
  readonly lateSettlements: number;
  /** Settlements of deliveries settled before, since the start. */
  readonly repeatedSettlements: number;
}

/** A consumer; see {@link createConsumer}. */
export interface Consumer {
  readonly queue: string;
  readonly state: ConsumerState;
  /** Deliveries held and not settled. */
  readonly unsettled: number;
  health(): ConsumerHealth;
  /**
   * Receives no more; held deliveries can still be settled. Resolves when the broker has stopped.
   *
   * @param quiet true where it happens all the time, so that it is no line of the log at level info
   */
  pause(reason?: string, quiet?: boolean): Promise<void>;
  /** Undoes {@link pause}. */
  resume(): void;
  /** Takes effect by a new consumer on the queue; held deliveries stay settle-able. */
  setPrefetch(prefetch: number): void;
  /**
   * Ends for good, at most within about `timeoutMs` (3000): the broker takes unsettled deliveries
   * back. Never rejects. Does not close the connection.
   */
  close(timeoutMs?: number): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

class QueueConsumer implements Consumer {
  readonly queue: string;
  state: ConsumerState = "waiting";
  #reason: string | undefined = "not connected yet";
  #prefetch: number;
  #wanted = true;
  /** True from a quiet pause until the consumer is back. */
  #quiet = false;
  #session: ConsumeSession | undefined;
  /** Sessions that receive no more but still hold deliveries. */
  readonly #draining = new Set<ConsumeSession>();
  readonly #counts: SettleCounts = { late: 0, repeated: 0 };
  readonly #options: ConsumerOptions;
  readonly #logger: Logger;
  readonly #random: () => number;
  readonly #stop = new AbortController();
  #wake: PromiseWithResolvers<void> = Promise.withResolvers<void>();
  readonly #loop: Promise<void>;

  constructor(options: ConsumerOptions) {
    this.queue = options.queue;
    this.#options = options;
    this.#prefetch = options.prefetch;
    this.#logger = options.logger;
    this.#random = options.random ?? Math.random;
    this.#loop = this.#run();
  }

  get unsettled(): number {
    let sum = this.#session?.unsettled ?? 0;
    for (const session of this.#draining) sum += session.unsettled;
    return sum;
  }

  health(): ConsumerHealth {
    return {
      state: this.state,
      reason: this.#reason,
      unsettled: this.unsettled,
      lateSettlements: this.#counts.late,
      repeatedSettlements: this.#counts.repeated,
    };
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let failures = 0;
    while (!signal.aborted) {
      if (!this.#wanted) {
        await this.#woken();
        continue;
      }
      const session = await this.#begin();
      if (session === undefined) {
        failures += 1;
        await this.#backOff(failures);
        continue;
      }
      const startedAt = performance.now();
      const end = await this.#sessionEnd(session);
      this.#session = undefined;
      this.#drain(session);
      // Paused, closed or a new prefetch: whoever woke us has set what comes next.
      if (end === undefined) continue;
      this.#setState("waiting", end.reason);
      // A consumer that is cut off again and again keeps its backoff.
      failures = performance.now() - startedAt > 5_000 ? 1 : failures + 1;
      await this.#backOff(failures, end.kind === "cancelled" ? cancelledMs : 0);
    }
  }

  /** Waits for the session's end; undefined if we end it, also for what was asked while it began. */
  async #sessionEnd(session: ConsumeSession): Promise<SessionEnd | undefined> {
    if (!this.#wanted || this.#stop.signal.aborted || session.prefetch !== this.#prefetch) {
      return undefined;
    }
    const waiting = new AbortController();
    try {
      return await Promise.race([
        session.ended,
        this.#woken(),
        this.#idle(session, waiting.signal),
      ]);
    } finally {
      waiting.abort();
    }
  }

  /** Resolves when nothing has come for long, though there was room. */
  async #idle(session: ConsumeSession, signal: AbortSignal): Promise<undefined> {
    const { renewMs = renewDefaultMs } = this.#options;
    const mostMs = renewMs * (0.75 + this.#random() / 2);
    while (session.idleMs < mostMs) {
      await delay(mostMs - session.idleMs, undefined, { signal, ref: false });
    }
    this.#logger.debug({ queue: this.queue }, "idle consumer renewed");
  }

  /** Resolves at the next pause, resume, change of prefetch or close. */
  async #woken(): Promise<undefined> {
    await this.#wake.promise;
    return undefined;
  }

  #wakeUp(): void {
    const wake = this.#wake;
    this.#wake = Promise.withResolvers<void>();
    wake.resolve();
  }

  /** Full jitter under 250 ms doubling up to 5 s, after `leastMs`; a wake-up ends it early. */
  async #backOff(failures: number, leastMs = 0): Promise<void> {
    const bound = Math.min(5_000, 125 * 2 ** Math.min(failures, 10));
    const timer = new AbortController();
    const wait = delay(leastMs + Math.floor(this.#random() * bound), undefined, {
      signal: timer.signal,
    });
    await Promise.race([wait.catch(() => undefined), this.#woken()]);
    timer.abort();
  }

  async #begin(): Promise<ConsumeSession | undefined> {
    const { connection, onDelivery } = this.#options;
    const { signal } = this.#stop;
    let session: ConsumeSession | undefined;
    try {
      if (connection.state === "connecting") {
        this.#setState("waiting", connection.lastError?.message ?? "not connected yet");
      }
      await connection.ready(signal);
      const channel = await connection.openChannel();
      if (signal.aborted) {
        await channel.close();
        return undefined;
      }
      session = new ConsumeSession({
        channel,
        queue: this.queue,
        prefetch: this.#prefetch,
        logger: this.#logger,
        counts: this.#counts,
        onDelivery,
      });
      // Counted from the first delivery on, which may come before consume-ok is seen here.
      this.#session = session;
      await session.start(this.#options.consumerTag);
      if (this.#wanted && !signal.aborted && session.alive) this.#setState("consuming", undefined);
      return session;
    } catch (error) {
      this.#session = undefined;
      if (session !== undefined) this.#drain(session);
      if (signal.aborted) return undefined;
      await this.#explain(error);
      return undefined;
    }
  }

  async #explain(error: unknown): Promise<void> {
    if (codeOf(error) !== 404) {
      this.#setState("waiting", textOf(error));
      return;
    }
    this.#setState("waiting", `queue "${this.queue}" does not exist`);
    try {
      await this.#options.ensureQueue?.();
    } catch (err) {
      this.#logger.warn({ err, queue: this.queue }, "queue could not be declared");
    }
  }

  #drain(session: ConsumeSession): void {
    this.#draining.add(session);
    void session.stop();
    // Its channel closes after the last settlement, or with the connection.
    session.onChannelEnd(() => this.#draining.delete(session));
  }

  #setState(state: ConsumerState, reason: string | undefined): void {
    if (state === this.state && reason === this.#reason) return;
    // The same state for another reason is news for health, not a transition for the log.
    const changed = state !== this.state;
    this.state = state;
    this.#reason = reason;
    const fields = { queue: this.queue, ...(reason === undefined ? {} : { reason }) };
    if (state === "waiting") {
      if (changed && !this.#quiet) this.#logger.warn(fields, "consumer waiting");
      else this.#logger.debug(fields, "consumer waiting");
    } else {
      const level = this.#quiet ? "debug" : "info";
      this.#logger[level](fields, state === "consuming" ? "consumer started" : "consumer paused");
      if (state === "consuming") this.#quiet = false;
    }
    try {
      this.#options.onStateChange?.(state, reason);
    } catch (err) {
      this.#logger.error({ err, queue: this.queue }, "consumer state handler failed");
    }
  }

  async pause(reason = "paused", quiet = false): Promise<void> {
    this.#wanted = false;
    this.#quiet = quiet;
    this.#setState("paused", reason);
    const session = this.#session;
    this.#wakeUp();
    await session?.stop();
  }

  resume(): void {
    if (this.#wanted || this.#stop.signal.aborted) return;
    this.#wanted = true;
    this.#setState("waiting", "starting");
    this.#wakeUp();
  }

  setPrefetch(prefetch: number): void {
    if (prefetch === this.#prefetch) return;
    this.#prefetch = prefetch;
    if (this.#session !== undefined) this.#wakeUp();
  }

  async close(timeoutMs = 3_000): Promise<void> {
    this.#wanted = false;
    this.#stop.abort();
    this.#wakeUp();
    this.#setState("paused", "closed");
    const sessions = [...this.#draining];
    if (this.#session !== undefined) sessions.push(this.#session);
    const timer = new AbortController();
    const timeout = delay(timeoutMs, undefined, { signal: timer.signal }).catch(() => undefined);
    await Promise.all(sessions.map((session) => session.close(timeoutMs)));
    // A channel that is just being opened may take longer; it is closed as soon as it is there.
    await Promise.race([this.#loop, timeout]);
    timer.abort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Creates a consumer and begins to consume as soon as connection and queue allow.
 */
export function createConsumer(options: ConsumerOptions): Consumer {
  return new QueueConsumer(options);
}
