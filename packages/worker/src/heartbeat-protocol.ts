/**
 * What the main thread and the heartbeat thread tell each other: messages, and numbers in memory
 * that both see at once. A message waits until its reader's event loop turns; the numbers do not, so
 * that a thread which was blocked or frozen knows before its next step that its lease is over.
 */

import type { Statement, Statements } from "@waybill/postgres";
import type { ClientConfig } from "pg";

/** Statements of the heartbeat; sent as texts, so that the thread loads nothing but the driver. */
export type HeartbeatStatements = Readonly<
  Record<
    keyof Pick<Statements, "lock_worker" | "register_worker" | "renew_worker" | "retire_worker">,
    Statement
  >
>;

/** What the heartbeat thread is started with. */
export interface HeartbeatSetup {
  /** Of the {@link Pulse}. */
  readonly memory: SharedArrayBuffer;
  readonly config: ClientConfig;
  readonly statements: HeartbeatStatements;
  /** False behind a transaction pooler: no prepared statements and no session lock. */
  readonly ownSession: boolean;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly queues: readonly string[];
  readonly holdMs: number;
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  readonly blockedWarnMs: number;
  readonly blockedMaxMs: number;
  /** True where the inspector can look at the main thread of the process. */
  readonly inspectable: boolean;
  /** A boot id of a thread that died: others may run its jobs at once. */
  readonly formerBootId: string | undefined;
}

/** Where the main thread was while its event loop did not turn. */
export interface BlockedPlace {
  readonly jobId?: string;
  readonly jobName?: string;
  /** The topmost calls, one a line. */
  readonly stack?: string;
}

/** An event loop that did not turn for a while. */
export interface BlockedReport extends BlockedPlace {
  readonly blockedMs: number;
}

/** From the thread. */
export type HeartbeatMessage =
  | {
      readonly kind: "registered";
      readonly life: number;
      readonly bootId: string;
      readonly locked: boolean;
    }
  | { readonly kind: "lost"; readonly life: number }
  | { readonly kind: "disconnected"; readonly error: unknown }
  | { readonly kind: "blocked"; readonly report: BlockedReport }
  | { readonly kind: "retired" };

/** To the thread. `look`: there is news in the memory. */
export type HeartbeatOrder = { readonly kind: "look" } | { readonly kind: "stop" };

/** On `globalThis`: a function that tells whose code runs. The inspector calls it. */
export const currentJobHook: unique symbol = Symbol.for("waybill.currentJob");

/** Milliseconds of the one clock that all threads share and that no change of the date moves. */
export const sharedNow = (): number => Number(process.hrtime.bigint()) / 1e6;

const cells = [
  /** When the last renewal that was accepted was sent; the lease counts from then. */
  "renewedAt",
  /** The last life that has ended. Lives of a boot id count from 1; either thread may end one. */
  "lostLife",
  /** One more with every turn of the main thread's event loop that its timer sees. */
  "turns",
  /** One more whenever the heartbeat thread looks. */
  "looks",
  /** Attempts that run. */
  "running",
  /** Attempts that have finished. */
  "finished",
  /** 1: takes no more jobs. */
  "draining",
  /** 1: somebody may hold the main thread in a debugger. */
  "debugged",
] as const;

/** Numbers that both threads see at once: whole ones. */
export class Pulse {
  readonly memory: SharedArrayBuffer;
  readonly #cells: BigInt64Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(cells.length * 8)) {
    this.memory = memory;
    this.#cells = new BigInt64Array(memory);
  }

  get(cell: (typeof cells)[number]): number {
    return Number(Atomics.load(this.#cells, cells.indexOf(cell)));
  }

  /** Fractions are cut off. */
  set(cell: (typeof cells)[number], value: number): void {
    Atomics.store(this.#cells, cells.indexOf(cell), BigInt(Math.floor(value)));
  }

  /** One more. */
  count(cell: (typeof cells)[number]): void {
    Atomics.add(this.#cells, cells.indexOf(cell), 1n);
  }

  /** Ends a life, for good. */
  endLife(life: number): void {
    const index = cells.indexOf("lostLife");
    let current = Atomics.load(this.#cells, index);
    // The other thread may end a later one at the same time.
    while (current < life) {
      const seen = Atomics.compareExchange(this.#cells, index, current, BigInt(life));
      if (seen === current) return;
      current = seen;
    }
  }

  /** True when the life has ended, as either thread has said or as the clock says. */
  isOver(life: number, leaseMs: number): boolean {
    return this.get("lostLife") >= life || sharedNow() - this.get("renewedAt") >= leaseMs;
  }
}
