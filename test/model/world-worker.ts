/**
 * A worker of the whole world, one statement at a time, each of which may get no answer. The verdict,
 * the decision after a failure and what is in flight are the product's own (verdict.ts, failure.ts,
 * in-flight.ts); the order of acts is that of claims.ts, job-runner.ts, holding.ts and presence.ts.
 */

import {
  decideFailure,
  type Failure,
  failureOf,
  isTerminal,
  type JobState,
  NonRetryableError,
  RetryAfterError,
  statedFailure,
} from "@waybill/core";
import { InFlight } from "../../packages/worker/src/in-flight.ts";
import type { Incoming } from "../../packages/worker/src/incoming.ts";
import { verdictOf } from "../../packages/worker/src/verdict.ts";
import type { Claimed, ModelJobs } from "./model-jobs.ts";
import type { ModelDelivery, ModelQueue } from "./world-broker.ts";

/** How a statement goes: `lost`, it ran and the answer did not come. */
export type Answer = "ok" | "lost" | "refused";

/** How a handler comes back. */
export type HandlerEnd = "returns" | "throws" | "gives up" | "asks for time";

/** What a transactional handler's commit comes to. */
export type CommitFate = "ok" | "rolled back" | "lost" | "lost in vain";

/** Budgets and times of the model's jobs. */
export const limits = {
  maxAttempts: 3,
  crashBudget: 2,
  leaseMs: 15_000,
  retry: { maxAttempts: 3, initialDelayMs: 500, maxDelayMs: 4_000, factor: 2, jitter: "full" },
} as const;

/** What a worker does to the world. */
export interface WorkerPorts {
  readonly jobs: ModelJobs;
  readonly queue: ModelQueue;
  readonly newBootId: () => string;
  readonly isTransactional: (id: string) => boolean;
  readonly onStart: (id: string, row: Claimed) => void;
  /** A transactional handler's effect is committed, or a plain handler has acted. */
  readonly onEffect: (id: string) => void;
  readonly onHandedBack: (id: string) => void;
  /** An attempt has changed its job, with this token. */
  readonly onWrite: (id: string, token: number) => void;
}

type Ending =
  | { readonly kind: "complete" | "cancel" | "release" }
  | { readonly kind: "fail"; readonly delayMs: number | undefined };

/** A job on its way from claim to ack. */
interface Run {
  readonly incoming: Incoming;
  readonly delivery: ModelDelivery;
  readonly row: Claimed;
  isLeased: boolean;
  isLeasing: boolean;
  /** What is to be written about its end. */
  ending: Ending | undefined;
}

/** See the head of the file. */
export class WorldWorker {
  readonly #ports: WorkerPorts;
  readonly #inFlight = new InFlight();
  #boot: string;
  #waiting: Incoming[] = [];
  /** All of the present connection. */
  #deliveries: ModelDelivery[] = [];
  #runs: Run[] = [];
  #isStopping = false;
  isFrozen = false;
  isOver = false;
  readonly #hasLock: boolean;

  constructor(ports: WorkerPorts, hasLock: boolean) {
    this.#ports = ports;
    this.#hasLock = hasLock;
    this.#boot = this.#register();
  }

  get isIdle(): boolean {
    return this.#runs.length + this.#waiting.length === 0;
  }

  #register(): string {
    const { jobs, newBootId } = this.#ports;
    const boot = newBootId();
    const isLocked = this.#hasLock ? true : null;
    jobs.workers.set(boot, { leaseUntil: jobs.nowMs + limits.leaseMs, isLocked });
    return boot;
  }

  get #mayClaim(): boolean {
    const { jobs } = this.#ports;
    return (jobs.workers.get(this.#boot)?.leaseUntil ?? 0) > jobs.nowMs;
  }

  #run(pick: number): Run | undefined {
    return this.#runs[pick % Math.max(1, this.#runs.length)];
  }

  receive(pick: number): void {
    if (this.#isStopping || this.#waiting.length >= 4) return;
    const delivery = this.#ports.queue.deliver(pick);
    if (delivery === undefined) return;
    const { message } = delivery;
    this.#deliveries.push(delivery);
    this.#waiting.push({ key: message.id, envelope: message, delivery } as unknown as Incoming);
  }

  /**
   * Claims a delivery.
   *
   * @param isLate it was sent while the lease ran, and arrives whenever it does
   */
  claim(pick: number, answer: Answer, isLate: boolean): void {
    if (!isLate && !this.#mayClaim) return;
    const [incoming] = this.#waiting.splice(pick % Math.max(1, this.#waiting.length), 1);
    if (incoming === undefined) return;
    const { jobs, onStart } = this.#ports;
    const delivery = deliveryOf(incoming);
    if (this.#inFlight.has(incoming.key)) {
      if (!this.#inFlight.keepSuccessor(incoming)) this.#hold(incoming, this.#boot, answer);
      return;
    }
    this.#inFlight.add(incoming);
    const row = answer === "refused" ? undefined : jobs.claim(this.#boot, delivery.message);
    if (row === undefined || answer === "lost") {
      // Perhaps the job is ours, so the delivery stays here.
      this.#land(incoming);
      if (this.#isStopping) delivery.requeue();
      else this.#waiting.push(incoming);
      return;
    }
    const verdict = verdictOf(row, this.#boot);
    if (verdict !== "run") {
      this.#land(incoming);
      if (verdict === "held") this.#hold(incoming, row.owner, answer);
      else delivery.ack();
      return;
    }
    const run: Run = {
      incoming,
      delivery,
      row,
      isLeased: false,
      isLeasing: false,
      ending: undefined,
    };
    this.#runs.push(run);
    if (row.crashes > limits.crashBudget) {
      run.ending = this.#decided(run, statedFailure("crashed", "its workers died"));
    } else if (this.#isStopping || !this.#mayClaim) run.ending = { kind: "release" };
    else onStart(incoming.key, row);
  }

  /** Parks a copy; it is let go only when the database says that it is there. */
  #hold(incoming: Incoming, owner: string | null, answer: Answer): void {
    if (answer !== "refused") this.#ports.jobs.park(deliveryOf(incoming).message, owner, 100);
    if (answer === "ok") incoming.delivery.ack();
    else incoming.delivery.requeue();
  }

  #land(incoming: Incoming): void {
    const successor = this.#inFlight.remove(incoming.key);
    if (successor === undefined) return;
    if (this.#isStopping) successor.delivery.requeue();
    else this.#waiting.push(successor);
  }

  /** A handler comes back. A transactional one that returns commits its effect and the job's end. */
  end(pick: number, how: HandlerEnd, commit: CommitFate): void {
    const run = this.#run(pick);
    if (run === undefined || run.ending !== undefined || run.isLeasing) return;
    const { jobs, isTransactional, onEffect } = this.#ports;
    const { id } = run.delivery.message;
    this.#inFlight.endHandler(id);
    if (how !== "returns") {
      run.ending = this.#failed(run, how);
      return;
    }
    if (!isTransactional(id)) {
      onEffect(id);
      run.ending = { kind: "complete" };
      return;
    }
    const isCommitted = commit === "ok" || commit === "lost";
    const isOurs = isCommitted && jobs.complete(this.#owned(run));
    if (isOurs) {
      this.#ports.onWrite(id, run.row.token);
      onEffect(id);
    }
    if (commit === "rolled back") run.ending = this.#failed(run, "throws");
    else if (commit === "ok") this.#finish(run, isOurs ? "succeeded" : "lost");
    // Without an answer nobody knows: handed back, which changes nothing where it had ended.
    else run.ending = { kind: "release" };
  }

  #failed(run: Run, how: Exclude<HandlerEnd, "returns">): Ending {
    return this.#decided(run, failureOf(errors[how]()));
  }

  #decided({ row }: Run, failure: Failure): Ending {
    const decision = decideFailure(failure, row.attempt, limits.retry, () => 0.5);
    return { kind: "fail", delayMs: decision.next === "retry" ? decision.delayMs : undefined };
  }

  #owned({ row, delivery, isLeased }: Run): { id: string; token: number; isLeased: boolean } {
    return { id: delivery.message.id, token: row.token, isLeased };
  }

  /** Writes the end of a job that has one. */
  settle(pick: number, answer: Answer): void {
    const run = this.#run(pick);
    if (run?.ending === undefined || run.isLeasing || answer === "refused") return;
    const changed = this.#write(run, run.ending);
    if (changed !== undefined) this.#ports.onWrite(run.delivery.message.id, run.row.token);
    // It is sent again, and then finds what it has done.
    if (answer === "lost") return;
    const { jobs } = this.#ports;
    const found = jobs.inbox.get(run.delivery.message.id);
    const isOurs = found?.token === run.row.token && found.state !== "running";
    const state = changed ?? (isOurs ? found.state : "lost");
    if (run.ending.kind === "release" && state === "retry_waiting") {
      this.#ports.onHandedBack(run.delivery.message.id);
      this.#finish(run, "handed back");
    } else this.#finish(run, state);
  }

  #write(run: Run, ending: Ending): JobState | undefined {
    const { jobs } = this.#ports;
    const owned = this.#owned(run);
    const { message } = run.delivery;
    switch (ending.kind) {
      case "complete":
        return jobs.complete(owned) ? "succeeded" : undefined;
      case "cancel":
        return jobs.cancelAttempt(owned) ? "cancelled" : undefined;
      case "release":
        return jobs.release(owned, message) ? "retry_waiting" : undefined;
      case "fail":
        return jobs.fail(owned, message, ending.delayMs);
    }
  }

  #finish(run: Run, state: JobState | "lost" | "handed back"): void {
    if (!run.isLeased) {
      if (state === "lost" || state === "handed back") run.delivery.requeue();
      else run.delivery.ack();
    }
    this.#runs = this.#runs.filter((each) => each !== run);
    this.#land(run.incoming);
  }

  /** Lets a job go on without its delivery, which is let go only when its lease is there. */
  lease(pick: number, answer: Answer): void {
    const run = this.#run(pick);
    if (run === undefined || run.isLeased || (run.ending !== undefined && !run.isLeasing)) return;
    run.isLeasing = true;
    if (answer === "refused") return;
    const isHeld = this.#ports.jobs.hold(this.#owned(run), run.delivery.message);
    if (answer === "lost") return;
    run.isLeasing = false;
    if (!isHeld) {
      run.ending = { kind: "release" };
      return;
    }
    run.isLeased = true;
    run.delivery.ack();
    this.#inFlight.lease(run.incoming.key)?.delivery.ack();
  }

  /** Sends a statement again that got no answer. */
  finishLease(pick: number): void {
    if (this.#run(pick)?.isLeasing === true) this.lease(pick, "ok");
  }

  /** Renews the presence. A boot id whose lease was over is never alive again. */
  heartbeat(): void {
    const { jobs } = this.#ports;
    const worker = jobs.workers.get(this.#boot);
    if (worker !== undefined && this.#hasLock)
      jobs.workers.set(this.#boot, { ...worker, isLocked: true });
    if (jobs.renewWorker(this.#boot, limits.leaseMs)) return;
    for (const run of this.#runs) run.ending ??= { kind: "release" };
    this.#boot = this.#register();
  }

  /** The connection that holds the lock has ended; the next heartbeat opens another one. */
  loseLock(): void {
    const { jobs } = this.#ports;
    const worker = jobs.workers.get(this.#boot);
    if (worker !== undefined && this.#hasLock) {
      jobs.workers.set(this.#boot, { ...worker, isLocked: false });
    }
  }

  /** Looks what others ask of it. */
  lookForRequests(): void {
    for (const run of this.#runs) {
      const row = this.#ports.jobs.inbox.get(run.delivery.message.id);
      if (row?.token !== run.row.token) run.ending ??= { kind: "release" };
      else if (row.isCancelRequested && !isTerminal(row.state)) run.ending ??= { kind: "cancel" };
    }
  }

  /** Ends in good order: takes nothing more, gives back what it has. */
  stop(): void {
    this.#isStopping = true;
    for (const { delivery } of this.#waiting.splice(0)) delivery.requeue();
    for (const run of this.#runs) run.ending ??= { kind: "release" };
  }

  /** After the last job of one that stops. */
  retire(): void {
    if (!this.#isStopping || !this.isIdle) return;
    this.#ports.jobs.workers.delete(this.#boot);
    this.isOver = true;
  }

  /**
   * The connection to the broker has ended. What waits is claimed all the same: of a delivery whose claim got
   * no answer the job may be ours, and nobody else would start it while we live.
   */
  disconnect(): void {
    for (const delivery of this.#deliveries.splice(0)) delivery.lose();
  }

  kill(): void {
    this.disconnect();
    this.loseLock();
    this.#waiting = [];
    this.#runs = [];
    this.isOver = true;
  }

  /** Jobs on their way from claim to ack. */
  get runs(): number {
    return this.#runs.length;
  }

  /** The job of a run, if its handler is to come back next. */
  runningAt(pick: number): string | undefined {
    const run = this.#run(pick);
    return run === undefined || run.ending !== undefined || run.isLeasing
      ? undefined
      : run.delivery.message.id;
  }
}

const deliveryOf = ({ delivery }: Incoming): ModelDelivery => delivery as unknown as ModelDelivery;

const errors = {
  throws: () => new Error("no"),
  "gives up": () => new NonRetryableError("never"),
  "asks for time": () => new RetryAfterError("later", 900),
} as const;
