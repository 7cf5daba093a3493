import type { Incoming } from "./incoming.ts";

/**
 * The jobs that this process is claiming, running or settling, each with its delivery. No second
 * delivery of such a job is ever claimed: the claim would take it for an answer that was lost.
 */
export class InFlight {
  readonly #jobs = new Map<
    string,
    {
      readonly incoming: Incoming;
      handlerEnded: boolean;
      leased: boolean;
      successor?: Incoming | undefined;
    }
  >();

  has(key: string): boolean {
    return this.#jobs.has(key);
  }

  add(incoming: Incoming): void {
    this.#jobs.set(incoming.key, { incoming, handlerEnded: false, leased: false });
  }

  /** The handler has ended: what is left takes milliseconds. */
  endHandler(key: string): void {
    const job = this.#jobs.get(key);
    if (job !== undefined) job.handlerEnded = true;
  }

  /**
   * The job goes on without a delivery; returns the copy that was kept in the place of a lost one. The
   * lease does what a copy is for, and one that is kept any longer would outlast the broker's patience.
   */
  lease(key: string): Incoming | undefined {
    const job = this.#jobs.get(key);
    if (job === undefined) return undefined;
    const { successor } = job;
    job.leased = true;
    job.successor = undefined;
    return successor;
  }

  /**
   * Keeps a copy whose job is in flight until it has landed: one in the place of a delivery that was
   * lost with its connection, or the retry that overtook the answer to its failure, as one after a
   * delay of next to nothing does. False for any other copy.
   */
  keepSuccessor(copy: Incoming): boolean {
    const job = this.#jobs.get(copy.key);
    if (job === undefined) return false;
    const current = job.successor ?? job.incoming;
    const isRetry = job.handlerEnded && copy.envelope.dispatch > current.envelope.dispatch;
    if ((job.leased || current.delivery.generationAlive) && !isRetry) return false;
    // One is kept; a living one that was kept before goes back to the queue.
    if (job.successor?.delivery.generationAlive === true) job.successor.delivery.requeue();
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
