/**
 * The heartbeat: a thread of its own, so that the lease is renewed while a handler keeps the main
 * thread busy. It watches the main thread's event loop. One that does not turn for a while is
 * written into the worker's row with the handler that blocks it; one that does not turn for very
 * long loses its lease here, so that others take over.
 *
 * Loaded by `heartbeat.ts` as a thread's program. It imports the driver and nothing else that is
 * large, so that it starts fast.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { writeSync } from "node:fs";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import {
  type HeartbeatMessage,
  type HeartbeatOrder,
  type HeartbeatSetup,
  Pulse,
  sharedNow,
} from "./heartbeat-protocol.ts";
import { HeartbeatSession, type Vitals } from "./heartbeat-session.ts";
import { LoopWatch } from "./loop-watch.ts";
import { inspectMainThread } from "./main-thread-inspection.ts";

/** A worker whose lock is missing for half a second is taken for dead, though its lease runs. */
const openAgainMaxMs = 400;

class HeartbeatThread {
  readonly #setup: HeartbeatSetup;
  readonly #port: MessagePort;
  readonly #pulse: Pulse;
  readonly #watch: LoopWatch;
  #life = 0;
  #bootId: string | undefined;
  /** A boot id that is over, and whose row may not say so yet. */
  #formerBootId: string | undefined;
  #lockKey: string | null = null;
  /** False while the session lock is not ours: others may take us for dead. */
  #locked = false;
  #wasDraining = false;
  #stopped = false;
  #isWoken = false;
  #wake: (() => void) | undefined;

  constructor(setup: HeartbeatSetup, port: MessagePort) {
    this.#setup = setup;
    this.#port = port;
    this.#pulse = new Pulse(setup.memory);
    this.#formerBootId = setup.formerBootId;
    this.#watch = new LoopWatch({
      pulse: this.#pulse,
      warnMs: setup.blockedWarnMs,
      inspect: (isSame, onFound) => {
        try {
          return setup.inspectable ? inspectMainThread(isSame, onFound) : undefined;
        } catch {
          // What blocks stays unknown; that something does is known.
          return undefined;
        }
      },
      onBlocked: () => this.#wakeUp(),
      onFree: (report) => {
        this.#tell({ kind: "blocked", report });
        this.#wakeUp();
      },
    });
    port.on("message", ({ kind }: HeartbeatOrder) => {
      if (kind === "stop") this.#stopped = true;
      this.#wakeUp();
    });
  }

  /** Renews until it is told to stop, then removes the presence. */
  async run(): Promise<void> {
    const { blockedWarnMs, leaseMs } = this.#setup;
    const lookMs = Math.max(10, Math.min(200, blockedWarnMs / 5, leaseMs / 10));
    const looking = setInterval(() => this.#look(), lookMs);
    for (let failures = 0; !this.#stopped; failures += 1) {
      try {
        // Who cannot work takes no new boot id.
        while (this.#isOverdue && !this.#stopped) {
          if (this.#bootId !== undefined) this.#lose();
          await this.#pause(lookMs);
        }
        await this.#live(() => (failures = 0));
      } catch (error) {
        // Once an outage: it is tried again several times a second.
        if (failures === 0) this.#tell({ kind: "disconnected", error: plain(error) });
      }
      this.#checkLease();
      if (!this.#stopped)
        await this.#pause(Math.min(leaseMs / 6, openAgainMaxMs, 25 * 2 ** Math.min(failures, 6)));
    }
    clearInterval(looking);
    this.#watch.end();
    this.#port.close();
  }

  /** The life of one connection. */
  async #live(onSuccess: () => void): Promise<void> {
    let isBeating = false;
    const session = await HeartbeatSession.open(this.#setup, () => {
      if (isBeating) this.#wakeUp();
    });
    try {
      isBeating = true;
      this.#locked = false;
      await this.#beat(session, onSuccess);
      if (!this.#stopped) return;
      if (this.#bootId !== undefined) await session.retire(this.#bootId);
      this.#tell({ kind: "retired" });
    } finally {
      isBeating = false;
      session.end();
    }
  }

  async #beat(session: HeartbeatSession, onSuccess: () => void): Promise<void> {
    while (!this.#stopped) {
      this.#checkLease();
      if (this.#isOverdue) return await this.#release(session);
      await (this.#bootId === undefined ? this.#register(session) : this.#renew(session));
      onSuccess();
      if (this.#bootId === undefined) continue;
      const { heartbeatMs } = this.#setup;
      // A lock that an earlier connection of ours still holds is free soon.
      const isSafe = this.#locked || this.#lockKey === null;
      await this.#pause(isSafe ? heartbeatMs : Math.min(1_000, heartbeatMs / 2));
      if (session.failure !== undefined && !this.#stopped) throw session.failure;
    }
  }

  async #register(session: HeartbeatSession): Promise<void> {
    if (this.#formerBootId !== undefined) {
      await session.renew(this.#formerBootId, 0, this.#vitals());
      this.#formerBootId = undefined;
    }
    const bootId = randomUUID();
    // Behind a transaction pooler a session lock would outlive us on one of its connections.
    const lockKey = this.#setup.ownSession ? randomBytes(8).readBigInt64BE().toString() : null;
    this.#locked = lockKey !== null && (await session.lock(lockKey));
    this.#lockKey = this.#locked ? lockKey : null;
    const sentAt = sharedNow();
    await session.register(bootId, this.#lockKey);
    this.#bootId = bootId;
    this.#life += 1;
    this.#pulse.set("renewedAt", sentAt);
    this.#tell({ kind: "registered", life: this.#life, bootId, locked: this.#locked });
  }

  async #renew(session: HeartbeatSession): Promise<void> {
    const bootId = this.#bootId;
    if (bootId === undefined) return;
    if (!this.#locked && this.#lockKey !== null) this.#locked = await session.lock(this.#lockKey);
    const sentAt = sharedNow();
    const isRenewed = await session.renew(bootId, this.#setup.leaseMs, this.#vitals());
    // The answer may have come after the end of the lease.
    this.#checkLease();
    if (this.#bootId !== bootId) return;
    if (isRenewed) this.#pulse.set("renewedAt", sentAt);
    else this.#lose();
  }

  /** Lets others take over while the main thread goes nowhere. */
  async #release(session: HeartbeatSession): Promise<void> {
    const bootId = this.#bootId;
    const { blockedMs } = this.#watch;
    if (bootId === undefined) return;
    // First here: the main thread may come back at any moment, and must not claim any more.
    this.#lose();
    try {
      await session.renew(bootId, 0, this.#vitals());
      this.#formerBootId = undefined;
    } finally {
      this.#report(bootId, blockedMs);
    }
  }

  /** The main thread's logger is out of reach. */
  #report(workerId: string, blockedMs: number | undefined): void {
    const line = {
      level: 50,
      time: Date.now(),
      pid: this.#setup.pid,
      hostname: this.#setup.host,
      component: "worker",
      worker: this.#setup.name,
      workerId,
      blockedMs,
      ...this.#watch.place,
      msg: "event loop blocked for too long, worker lease released",
    };
    try {
      writeSync(2, `${JSON.stringify(line)}\n`);
    } catch {
      // Nobody reads it; the lease is over all the same.
    }
  }

  #vitals(): Vitals {
    const { jobId, jobName } = this.#watch.place;
    return {
      running: this.#pulse.get("running"),
      finished: this.#pulse.get("finished"),
      state: this.#pulse.get("draining") === 1 ? "draining" : "running",
      rssBytes: process.memoryUsage.rss(),
      blockedMs: this.#watch.blockedMs ?? null,
      blockedBy: jobId === undefined ? null : `${jobName} ${jobId}`,
    };
  }

  #look(): void {
    this.#pulse.count("looks");
    this.#watch.look();
    this.#checkLease();
    const isDraining = this.#pulse.get("draining") === 1;
    const hasNews =
      isDraining !== this.#wasDraining || (this.#isOverdue && this.#bootId !== undefined);
    this.#wasDraining = isDraining;
    if (hasNews) this.#wakeUp();
  }

  get #isOverdue(): boolean {
    return (this.#watch.blockedMs ?? 0) >= this.#setup.blockedMaxMs;
  }

  #checkLease(): void {
    if (this.#bootId === undefined) return;
    if (this.#pulse.isOver(this.#life, this.#setup.leaseMs)) this.#lose();
  }

  #lose(): void {
    this.#formerBootId = this.#bootId;
    this.#bootId = undefined;
    this.#lockKey = null;
    this.#pulse.endLife(this.#life);
    this.#tell({ kind: "lost", life: this.#life });
  }

  #tell(message: HeartbeatMessage): void {
    this.#port.postMessage(message);
  }

  async #pause(milliseconds: number): Promise<void> {
    if (!this.#isWoken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const timer = setTimeout(resolve, milliseconds);
      await promise;
      clearTimeout(timer);
      this.#wake = undefined;
    }
    this.#isWoken = false;
  }

  #wakeUp(): void {
    this.#isWoken = true;
    this.#wake?.();
  }
}

/** The error as a message can carry it. */
function plain(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  // An attempt on each address of a host name.
  if (!(error instanceof AggregateError)) return error;
  return new Error(error.errors.map((one) => plain(one).message).join("; "));
}

if (parentPort !== null) await new HeartbeatThread(workerData as HeartbeatSetup, parentPort).run();
