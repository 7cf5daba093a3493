/**
 * Workers without handlers: the real shares over the real statements, with jobs that are numbers. What a
 * process would do at its own pace is done one step at a time, or several at once.
 */

import { createFlowStore, type FlowStore, type ShareUse } from "@waybill/postgres";
import { Shares } from "../../../packages/worker/src/shares.ts";
import { WorkQueue } from "../../../packages/worker/src/work-queue.ts";
import type { TestDatabase } from "../../support/index.ts";
import { addWorker } from "../../support/worker-row.ts";

/** What becomes of a worker's next statement about its shares. */
export type Answer = "comes" | "is lost" | "is lost, and the statement comes late";

/** The rows of the queue's workers that are alive, in all. */
export interface FleetSums {
  /** Jobs that run. */
  readonly running: number;
  /** The larger of granted and held, of each worker. */
  readonly held: number;
  readonly granted: number;
}

class FleetWorker {
  readonly id: string;
  readonly queue: WorkQueue;
  readonly #store: FlowStore;
  readonly #shares: Shares;
  #limit: number | undefined;
  #answer: Answer = "comes";
  #late: (readonly ShareUse[])[] = [];

  constructor(store: FlowStore, id: string, concurrency: number) {
    this.id = id;
    this.#store = store;
    this.queue = new WorkQueue("q", concurrency);
    this.#shares = new Shares({
      store: { join: (worker, queues) => store.join(worker, queues), hold: this.#hold.bind(this) },
      queues: [this.queue],
      limitOf: () => this.#limit,
      onExcess: () => undefined,
    });
  }

  async #hold(worker: string, uses: readonly ShareUse[]): ReturnType<FlowStore["hold"]> {
    const answer = this.#answer;
    this.#answer = "comes";
    if (answer === "is lost, and the statement comes late") this.#late.push(uses);
    const rows =
      answer === "is lost, and the statement comes late"
        ? []
        : await this.#store.hold(worker, uses);
    if (answer !== "comes") throw new Error("no answer");
    return rows;
  }

  /** Looks once, as a worker does every 400 ms. */
  async look(answer: Answer = "comes"): Promise<void> {
    this.#answer = answer;
    const { news, shares } = await this.#store.read(this.id, "0", ["q"]);
    this.#limit = news?.queues[0]?.settings.concurrency;
    await this.#shares.settle(this.id, shares).catch(() => undefined);
    this.#answer = "comes";
  }

  /** Carries out a statement whose answer was given up. */
  async comeLate(): Promise<void> {
    const uses = this.#late.shift();
    if (uses !== undefined) await this.#store.hold(this.id, uses);
  }

  /** Starts a job where the worker would. */
  startJob(): void {
    if (!this.queue.hasRoom) return;
    this.queue.occupySlot();
    this.queue.beginRun();
  }

  endJob(): void {
    if (this.queue.running === 0) return;
    this.queue.endRun(1);
    this.queue.freeSlot();
  }
}

/** See the head of the file; the queue is "q". */
export class Fleet {
  readonly #database: TestDatabase;
  readonly #store: FlowStore;
  workers: FleetWorker[] = [];

  constructor(database: TestDatabase) {
    this.#database = database;
    this.#store = createFlowStore(database.pool);
  }

  async start(concurrency: number): Promise<FleetWorker> {
    const id = await addWorker(this.#database, "w");
    const worker = new FleetWorker(this.#store, id, concurrency);
    this.workers.push(worker);
    return worker;
  }

  /** Its handlers are gone, and its lease. */
  async kill(worker: FleetWorker): Promise<void> {
    this.workers = this.workers.filter((one) => one !== worker);
    await this.#database.rows(
      "update waybill.worker set lease_until = now() - interval '2 seconds' where id = $1",
      [worker.id],
    );
  }

  /** It starts nothing more. */
  async drain(worker: FleetWorker): Promise<void> {
    worker.queue.setShut(true);
    await this.#database.rows("update waybill.worker set state = 'draining' where id = $1", [
      worker.id,
    ]);
  }

  async setLimit(limit: number | undefined): Promise<void> {
    await this.#database.rows(
      "insert into waybill.queue (name, overrides) values ('q', $1) on conflict (name) do update set overrides = excluded.overrides",
      [limit === undefined ? {} : { concurrency: limit }],
    );
  }

  async grant(): Promise<void> {
    await this.#store.grant("1", []);
  }

  /** Lets everybody look and grant until nothing changes any more. */
  async settle(): Promise<void> {
    for (let round = 0; round < 4; round += 1) {
      await this.grant();
      for (const worker of this.workers) await worker.look();
    }
  }

  async sums(): Promise<FleetSums> {
    const [row] = await this.#database.rows<{ held: number; granted: number }>(
      `select coalesce(sum(greatest(s.granted, s.held)), 0)::integer as held, coalesce(sum(s.granted), 0)::integer as granted
       from waybill.worker_queue as s
       where s.worker = any ($1::uuid[])`,
      [this.workers.map(({ id }) => id)],
    );
    const running = this.workers.reduce((sum, { queue }) => sum + queue.running, 0);
    return { running, held: row?.held ?? 0, granted: row?.granted ?? 0 };
  }

  /** Workers that use more than they have told, or may. */
  async liars(): Promise<readonly string[]> {
    const rows = await this.#database.rows<{ worker: string; held: number }>(
      "select worker, held from waybill.worker_queue",
    );
    const held = new Map(rows.map((row) => [row.worker, row.held]));
    return this.workers
      .filter(({ id, queue }) => {
        const most = held.get(id) ?? 0;
        return queue.running > most || Math.min(queue.gate, queue.concurrency) > most;
      })
      .map(({ id }) => id);
  }
}
