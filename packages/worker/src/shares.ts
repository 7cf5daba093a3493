/**
 * This worker's shares of its queues' limits. A limit holds over all workers of a queue, and no slot is
 * asked for one by one: the relay gives each worker a share (`granted`), and a worker tells what it may
 * be using (`held`). Why the handlers that run are never more than the limit:
 *
 * 1. The relay raises `granted` only so far that the sum of max(granted, held) over all living workers
 *    stays within the limit. It does so in one statement that locks the queue's rows first, so two
 *    relays, or a relay and a worker, come one after the other, whoever they are.
 * 2. A worker never uses more than its row's `held`, committed: more than max(gate, in use) is never
 *    started, and the gate is raised only to a `granted` that was read in the very statement that had
 *    set `held` to it, when that has committed. It is lowered as soon as less is seen, and `held`
 *    follows when the jobs above it have ended. While such a statement is on its way the gate stands
 *    still, and `held` becomes no less than what the gate allows meanwhile; one that comes late, whose
 *    answer was given up, finds that its turn has passed and changes nothing.
 *
 * So the handlers of a worker are at most its `held`, and the sum of these at most the limit. It holds
 * - when relays change: what was granted is in the rows, nothing is in a relay's memory but locks that
 *   it has missed; a relay whose term is over grants nothing (epoch)
 * - when a worker is killed: its handlers are dead when its session lock is gone, which the heartbeat's
 *   connection of the same process holds. The share is given on a second later: a connection that was
 *   lost, and whose worker lives, is open again by then
 * - when a worker is frozen: its share is its own until a second after its lease. It has lost its jobs
 *   then, and tells its handlers to stop as soon as it wakes up; until they have, they are beside those
 *   that took over. What they still use is in the `held` of its next boot id
 * - when the limit is lowered: within a second no worker starts anything above the new shares; what runs
 *   goes on to its end, and nobody is given its places before that
 * - when a limit is set where there was none: a row's `held` is then the worker's whole concurrency, so
 *   the others are given nothing until it has seen its share
 * - when a worker has lost its presence: it has no boot id and so claims nothing; the next one begins
 *   with a gate of 0
 * - for a share of 0: the door is shut, and what waits is given back
 *
 * Handlers that ignored their signal and were left behind do not count: their slot was given up.
 */

import type { FlowStore, WorkerShare, ShareUse } from "@waybill/postgres";
import type { WorkQueue } from "./work-queue.ts";

/** Options of {@link Shares}. */
export interface SharesOptions {
  readonly store: Pick<FlowStore, "join" | "hold">;
  readonly queues: readonly WorkQueue[];
  /** The queue's limit over all workers, as it was seen last. */
  readonly limitOf: (queue: string) => number | undefined;
  /** Less is in use than the database has been told. */
  readonly onExcess: () => void;
}

/** See the head of the file. */
export class Shares {
  readonly #options: SharesOptions;
  #settled = Promise.withResolvers<void>();
  /** The boot id whose rows are there. */
  #worker: string | undefined;
  /** One more with each boot id that is lost or new: answers to earlier ones are worth nothing. */
  #life = 0;
  /** What each queue's row says, where that is more than its share. */
  readonly #excess = new Map<string, number>();
  /** Queues whose share is 0. */
  #lacking: ReadonlySet<string> = new Set();

  constructor(options: SharesOptions) {
    this.#options = options;
    for (const queue of options.queues) {
      queue.setGate(0);
      queue.onEnded = () => {
        const held = this.#excess.get(queue.name);
        if (held !== undefined && queue.running < held) options.onExcess();
      };
    }
  }

  /** Resolves when it is known for each queue what may be used, be it nothing. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** True where the worker has no share of the queue's limit. */
  lacks(queue: string): boolean {
    return this.#lacking.has(queue);
  }

  /** There is no boot id any more, or another one: nothing may be used until it has its own rows. */
  reset(): void {
    this.#life += 1;
    this.#worker = undefined;
    this.#excess.clear();
    for (const queue of this.#options.queues) queue.setGate(0);
  }

  /**
   * Takes the worker's rows as they were just read, and writes what has to be. Errors of the driver pass
   * through: nothing is used then that the rows do not say.
   *
   * @returns true while a first share is awaited
   */
  async settle(worker: string, read: readonly WorkerShare[]): Promise<boolean> {
    const { store, queues } = this.#options;
    const life = this.#life;
    const rows = new Map(read.map((row) => [row.queue, row]));
    if (this.#worker !== worker || queues.some(({ name }) => !rows.has(name))) {
      this.#worker = undefined;
      for (const queue of queues) queue.setGate(0);
      await store.join(
        worker,
        queues.map((queue) => ({
          queue: queue.name,
          concurrency: queue.concurrency,
          held: queue.running,
        })),
      );
      if (life !== this.#life) return true;
      this.#worker = worker;
      for (const { name, running } of queues) {
        rows.set(name, rows.get(name) ?? { queue: name, granted: null, held: running, turn: "0" });
      }
    }
    const uses = queues.flatMap((queue) => this.#useOf(queue, rows.get(queue.name)));
    if (uses.length > 0) await this.#hold(worker, uses, life);
    if (life !== this.#life) return true;
    this.#lacking = new Set(queues.filter(({ gate }) => gate === 0).map(({ name }) => name));
    this.#settled.resolve();
    return queues.some((queue) => queue.gate === 0 && rows.get(queue.name)?.granted === null);
  }

  /** What is to be told of a queue; lowers its gate at once. */
  #useOf(queue: WorkQueue, row: WorkerShare | undefined): readonly ShareUse[] {
    if (row === undefined) return [];
    const { name, concurrency } = queue;
    const { granted, held, turn } = row;
    const limit = this.#options.limitOf(name);
    // Before the relay has said what each may have, nobody needs more than all of it.
    const most = granted ?? limit ?? Number.POSITIVE_INFINITY;
    if (most < queue.gate) queue.setGate(most);
    const used = Math.max(Math.min(queue.gate, concurrency), queue.running);
    const kept = Math.max(granted ?? 0, used);
    const isFree = granted === null && limit === undefined;
    this.#note(queue, isFree ? null : held, granted);
    const isRaised = isFree ? queue.gate !== Number.POSITIVE_INFINITY : (granted ?? 0) > queue.gate;
    return isRaised || held > kept ? [{ queue: name, turn, used }] : [];
  }

  async #hold(worker: string, uses: readonly ShareUse[], life: number): Promise<void> {
    const { store, queues } = this.#options;
    const answers = await store.hold(worker, uses);
    if (life !== this.#life) return;
    for (const { queue: name, granted, held, free } of answers) {
      const queue = queues.find((one) => one.name === name);
      if (queue === undefined) continue;
      if (free) queue.setGate(Number.POSITIVE_INFINITY);
      else if (granted !== null) queue.setGate(granted);
      this.#note(queue, free ? null : held, granted);
      if (queue.running < (this.#excess.get(name) ?? 0)) this.#options.onExcess();
    }
  }

  /** Remembers what the row says where that is more than the share, so that its fall is told soon. */
  #note({ name }: WorkQueue, held: number | null, granted: number | null): void {
    if (held !== null && held > (granted ?? 0)) this.#excess.set(name, held);
    else this.#excess.delete(name);
  }
}
