import type { BatchContext, BatchMember } from "./batched-job.ts";

type Outcome =
  | { readonly succeeded: true; readonly result: unknown }
  | { readonly succeeded: false; readonly error: unknown };

/** One job in a batch, from its joining to its outcome. */
export class BatchEntry<Tx> {
  readonly member: BatchMember<Tx>;
  readonly #ended = Promise.withResolvers<unknown>();
  #stated: Outcome | undefined;
  /** True where the attempt waits for the handler no more. */
  isLeftBehind = false;
  /** The handler has stated the outcome. */
  onStated: (() => void) | undefined;
  /** The attempt waits for the handler no more. */
  onLeftBehind: ((reason: Error) => void) | undefined;

  constructor(member: BatchMember<Tx>) {
    this.member = member;
  }

  /** Resolves to the job's result, or rejects with its failure. */
  get ended(): Promise<unknown> {
    return this.#ended.promise;
  }

  get signal(): AbortSignal {
    return this.member.context.signal;
  }

  /** True where the handler has stated the outcome. */
  get isStated(): boolean {
    return this.#stated !== undefined;
  }

  /** What the handler gets. */
  get context(): BatchContext<Tx> {
    return {
      ...this.member.context,
      succeed: (result) => this.#state({ succeeded: true, result }),
      fail: (error) => this.#state({ succeeded: false, error }),
    };
  }

  /** Ends with what was stated, or else with `outcome`. */
  end(outcome: Outcome): void {
    const final = this.#stated ?? outcome;
    if (final.succeeded) this.#ended.resolve(final.result);
    else this.#ended.reject(final.error);
  }

  /** The attempt waits for the handler no more. */
  leaveBehind(reason: Error): void {
    if (this.isLeftBehind) return;
    this.isLeftBehind = true;
    this.onLeftBehind?.(reason);
  }

  #state(outcome: Outcome): void {
    if (this.#stated === undefined) {
      this.#stated = outcome;
      this.onStated?.();
      return;
    }
    if (this.#stated.succeeded === outcome.succeeded) return;
    const { jobId, jobName, logger } = this.member.current;
    logger.warn(
      { jobId, jobName, ...(outcome.succeeded ? {} : { err: outcome.error }) },
      "job of a batch was given a second outcome, which has no effect",
    );
  }
}
