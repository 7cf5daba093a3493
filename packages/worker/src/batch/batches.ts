import type { BatchRun } from "../registry.ts";
import { Gathering, type Seat } from "./gathering.ts";

/** The batches of a worker: jobs of one handler and one queue go together. */
export class Batches<Tx> {
  readonly #mayGrow: (queue: string) => boolean;
  /** By handler, then by queue. */
  readonly #gatherings = new Map<BatchRun<Tx>, Map<string, Gathering<Tx>>>();

  /** @param mayGrow true while more jobs of the queue may be started */
  constructor(mayGrow: (queue: string) => boolean) {
    this.#mayGrow = mayGrow;
  }

  /** Keeps a place for an attempt. Call it in the turn of the event loop in which the attempt began. */
  reserve(run: BatchRun<Tx>, queue: string): Seat<Tx> {
    const ofQueues = this.#gatherings.get(run) ?? new Map<string, Gathering<Tx>>();
    this.#gatherings.set(run, ofQueues);
    const gathering =
      ofQueues.get(queue) ?? new Gathering<Tx>({ ...run, mayGrow: () => this.#mayGrow(queue) });
    ofQueues.set(queue, gathering);
    return gathering.reserve();
  }

  /** Starts the batches that nobody can join. Call it when jobs were claimed. */
  look(): void {
    for (const gathering of this.#all()) gathering.look();
  }

  /** Starts no more batches, and stops the jobs that wait for one. */
  stop(reasonOf: (jobId: string) => Error): void {
    for (const gathering of this.#all()) gathering.stop(reasonOf);
  }

  #all(): readonly Gathering<Tx>[] {
    return [...this.#gatherings.values()].flatMap((ofQueues) => [...ofQueues.values()]);
  }
}
