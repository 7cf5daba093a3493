import type { Incoming } from "./incoming.ts";

/**
 * The jobs that this process is claiming, running or settling, each with its delivery. No second
 * delivery of such a job is ever claimed: the claim would take it for an answer that was lost.
 */
export class InFlight {
  readonly #jobs = new Map<string, { readonly incoming: Incoming; successor?: Incoming }>();

  has(key: string): boolean {
    return this.#jobs.has(key);
  }

  add(incoming: Incoming): void {
    this.#jobs.set(incoming.key, { incoming });
  }

  /**
   * Keeps a copy whose job is in flight until it has ended, in the place of a delivery that was
   * lost with its connection. False where the job has a living delivery.
   */
  keepSuccessor(copy: Incoming): boolean {
    const job = this.#jobs.get(copy.key);
    if (job === undefined) return false;
    const current = job.successor ?? job.incoming;
    if (current.delivery.generationAlive) return false;
    job.successor = copy;
    return true;
  }

  /** Ends a job's flight; returns the copy that was kept, to be claimed now. */
  remove(key: string): Incoming | undefined {
    const successor = this.#jobs.get(key)?.successor;
    this.#jobs.delete(key);
    return successor;
  }
}
