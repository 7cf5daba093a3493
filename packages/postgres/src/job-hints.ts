/**
 * Hears which jobs have changed. One connection, opened again when it is lost. Whether notifications
 * reach it is found out by a word of one's own, sent through the application's data layer: behind a
 * transaction pooler LISTEN succeeds and nothing is ever heard. Nothing depends on a hint.
 */

import { backoffDelayMs, defaultRetryPolicy, type Logger, newJobId } from "@waybill/core";
import type { JobListener, Listening } from "./job-listener.ts";
import { settlesWithin } from "./settles-within.ts";

/** Options of {@link JobHints}. */
export interface JobHintsOptions {
  readonly listener: JobListener;
  readonly channel: string;
  readonly statement: string;
  readonly logger: Logger;
  /** Sends a word on the channel, by another connection. */
  notify(word: string): Promise<unknown>;
  /** A notification has come. */
  heard(payload: string): void;
  /** `listening` has changed. */
  changed(): void;
}

const openMaxMs = 10_000;
const testMaxMs = 5_000;
const pingEveryMs = 5_000;
const pingMaxMs = 5_000;
/** A pooler may have been replaced: asked again so often. */
const deafForMs = 30_000;
const openAgain = {
  ...defaultRetryPolicy,
  initialDelayMs: 200,
  maxDelayMs: 5_000,
  jitter: "equal",
} as const;

/** See the head of the file. */
export class JobHints {
  readonly #options: JobHintsOptions;
  readonly #stopped = Promise.withResolvers<void>();
  #isStopped = false;
  #listening = false;
  #told: "listening" | "deaf" | "lost" | undefined;
  #wake = Promise.withResolvers<void>();

  constructor(options: JobHintsOptions) {
    this.#options = options;
  }

  /** Whether notifications reach this process. */
  get listening(): boolean {
    return this.#listening;
  }

  /** Makes `run` end. */
  stop(): void {
    this.#isStopped = true;
    this.#stopped.resolve();
    this.#wake.resolve();
  }

  /** Listens until `stop`. Never rejects. */
  async run(): Promise<void> {
    for (let failures = 0; !this.#isStopped;) {
      let isDeaf = false;
      try {
        isDeaf = (await this.#listen(() => (failures = 0))) === "deaf";
        if (isDeaf) this.#tell("deaf");
      } catch (err) {
        if (!this.#isStopped) this.#tell("lost", err);
      }
      failures += 1;
      await this.#pause(isDeaf ? deafForMs : backoffDelayMs(openAgain, failures, Math.random));
    }
  }

  /** One connection's life. Rejects when it is lost. */
  async #listen(proven: () => void): Promise<"deaf" | "stopped"> {
    const { listener, channel, statement } = this.#options;
    const word = newJobId();
    const back = Promise.withResolvers<void>();
    const heard = (payload: string): void => {
      if (payload === word) back.resolve();
      else this.#options.heard(payload);
    };
    const opening = listener.listen({ channel, statement, heard });
    if (!(await settlesWithin(opening, openMaxMs))) {
      opening.then((late) => late.close()).catch(() => undefined);
      throw new Error("the listener's connection could not be opened in time");
    }
    const connection = await opening;
    let ended = false;
    void connection.ended.then(() => {
      ended = true;
      this.#wake.resolve();
    });
    try {
      if (!(await this.#isHeard(connection, word, back.promise))) return "deaf";
      if (!ended && !this.#isStopped) {
        proven();
        this.#tell("listening");
        this.#set(true);
      }
      while (!this.#isStopped) {
        if (!ended) await this.#pause(pingEveryMs);
        if (ended) throw new Error("the listener's connection has ended");
        // A half-open connection says nothing, not even that it has ended.
        if (!this.#isStopped && !(await settlesWithin(connection.ping(), pingMaxMs))) {
          throw new Error("the listener's connection does not answer");
        }
      }
      return "stopped";
    } finally {
      this.#set(false);
      await connection.close();
    }
  }

  /** Whether a word that another connection sends arrives at this one. */
  async #isHeard(connection: Listening, word: string, back: Promise<void>): Promise<boolean> {
    const over = Promise.race([connection.ended, this.#stopped.promise]);
    const sending = Promise.race([this.#options.notify(word), over]);
    // A pool without a free connection sends late: that is not deafness.
    if (!(await settlesWithin(sending, openMaxMs))) {
      throw new Error("no word could be sent to the listener in time");
    }
    return await settlesWithin(Promise.race([back, over]), testMaxMs);
  }

  /** Waits so long, or until something has happened to the connection, or `stop`. */
  async #pause(ms: number): Promise<void> {
    if (this.#isStopped) return;
    this.#wake = Promise.withResolvers();
    await settlesWithin(this.#wake.promise, ms);
  }

  #set(listening: boolean): void {
    if (this.#listening === listening) return;
    this.#listening = listening;
    this.#options.changed();
  }

  /** Says a change of how jobs are watched, once. */
  #tell(now: "listening" | "deaf" | "lost", err?: unknown): void {
    if (this.#told === now) return;
    const { logger } = this.#options;
    if (now === "deaf") logger.warn({}, "notifications do not reach this process, polling");
    else if (now === "lost") logger.warn({ err }, "listener for watched jobs lost, polling");
    else logger.info({}, "listening for changes of watched jobs");
    this.#told = now;
  }
}
