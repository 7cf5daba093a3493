/**
 * The worker's presence: a row with a lease that a heartbeat renews, and a session lock that dies
 * with the connection, so that a killed worker's jobs start elsewhere at once. A boot id that lost
 * its lease is never alive again: others may have taken over what it ran. The worker then gets a
 * new one.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@waybill/core";
import type { InboxStore } from "@waybill/postgres";
import type { OwnDatabase } from "./own-database.ts";

/** Options of {@link Presence}. */
export interface PresenceOptions {
  readonly database: OwnDatabase;
  readonly name: string;
  readonly version: string;
  readonly queues: readonly string[];
  readonly leaseMs: number;
  readonly logger: Logger;
  readonly random: () => number;
  /** Jobs running now. */
  readonly running: () => number;
  /** The lease of this boot id is over: others may run what it ran. */
  readonly onLost: (bootId: string) => void;
  /** There is a boot id, the first or a new one. */
  readonly onAlive: (bootId: string) => void;
}

interface Session {
  readonly store: InboxStore;
  readonly ended: Promise<void>;
  end(): void;
}

/** See the head of the file. */
export class Presence {
  readonly #options: PresenceOptions;
  readonly #stop = new AbortController();
  #bootId: string | undefined;
  #lockKey: string | null = null;
  /** False while the session lock is not ours: others may take us for dead. */
  #locked = false;
  #renewedAt = 0;
  #loop: Promise<void> | undefined;
  #watchdog: NodeJS.Timeout | undefined;

  constructor(options: PresenceOptions) {
    this.#options = options;
  }

  /** Undefined while the worker must not claim. */
  get bootId(): string | undefined {
    return this.#bootId;
  }

  /** Begins; a boot id is announced as soon as the database answers. */
  start(): void {
    // A heartbeat that gets no answer, or a process that was frozen, must not hide the lease's end.
    this.#watchdog ??= setInterval(() => this.#checkLease(), this.#options.leaseMs / 10);
    this.#loop ??= this.#run();
  }

  /** Removes the presence: what is still owned may be taken over at once. Never rejects. */
  async stop(): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#watchdog);
    await this.#loop;
    const bootId = this.#bootId;
    this.#bootId = undefined;
    if (bootId === undefined) return;
    // Without an answer the lease ends by itself.
    const retired = this.#options.database.store.retire(bootId).catch(() => undefined);
    await Promise.race([retired, delay(2_000, undefined, { ref: false })]);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        const session = await this.#openSession();
        try {
          await this.#beat(session, () => (failures = 0));
        } finally {
          session.end();
        }
      } catch (err) {
        if (signal.aborted) return;
        this.#options.logger.warn({ err }, "heartbeat connection lost");
      }
      this.#checkLease();
      await this.#pause(Math.min(this.#options.leaseMs / 6, 100 * 2 ** Math.min(failures, 6)));
    }
  }

  async #openSession(): Promise<Session> {
    const { client, store } = await this.#options.database.openSession();
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    client.once("end", resolve);
    client.once("error", () => resolve());
    return { store, ended, end: () => void client.end().catch(() => undefined) };
  }

  /** Renews until the session ends or fails. */
  async #beat(session: Session, onSuccess: () => void): Promise<void> {
    const { leaseMs, running, logger } = this.#options;
    this.#locked = false;
    while (!this.#stop.signal.aborted) {
      this.#checkLease();
      const sentAt = performance.now();
      if (this.#bootId === undefined) {
        await this.#register(session, sentAt);
      } else {
        if (!this.#locked && this.#lockKey !== null) {
          this.#locked = await session.store.lock(this.#lockKey);
        }
        if (await session.store.renew(this.#bootId, running(), leaseMs)) this.#renewedAt = sentAt;
        else this.#lose();
      }
      onSuccess();
      if (this.#bootId === undefined) continue;
      // A lock that an earlier connection of ours still holds is free soon.
      const wait =
        this.#locked || this.#lockKey === null ? leaseMs / 3 : Math.min(1_000, leaseMs / 6);
      const over = await Promise.race([session.ended.then(() => true), this.#pause(wait)]);
      if (over === true) {
        if (!this.#stop.signal.aborted) logger.warn({}, "heartbeat connection lost");
        return;
      }
    }
  }

  async #register(session: Session, sentAt: number): Promise<void> {
    const { database, name, version, queues, leaseMs, logger, onAlive } = this.#options;
    const bootId = randomUUID();
    // Behind a transaction pooler a session lock would outlive us on one of its connections.
    const lockKey = database.pooled ? null : randomBytes(8).readBigInt64BE().toString();
    this.#locked = lockKey !== null && (await session.store.lock(lockKey));
    await session.store.register({
      id: bootId,
      name,
      host: hostname(),
      pid: process.pid,
      version,
      queues,
      lockKey: this.#locked ? lockKey : null,
      leaseMs,
    });
    this.#lockKey = this.#locked ? lockKey : null;
    this.#bootId = bootId;
    this.#renewedAt = sentAt;
    logger.info({ workerId: bootId, sessionLock: this.#locked }, "worker registered");
    onAlive(bootId);
  }

  /** The lease counts from the moment the last renewal was sent, which is on the safe side. */
  #checkLease(): void {
    if (this.#bootId === undefined) return;
    if (performance.now() - this.#renewedAt >= this.#options.leaseMs) this.#lose();
  }

  #lose(): void {
    const bootId = this.#bootId;
    if (bootId === undefined) return;
    this.#bootId = undefined;
    this.#lockKey = null;
    this.#options.logger.error({ workerId: bootId }, "worker lease lost");
    this.#options.onLost(bootId);
  }

  async #pause(milliseconds: number): Promise<void> {
    await delay(milliseconds, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }
}
