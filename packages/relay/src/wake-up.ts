/**
 * When to look at the outbox again. While rows come, every 2 ms; then at the hint that
 * waybill.enqueue sends at commit, and every few hundred milliseconds without one. Where hints
 * cannot reach the relay (a transaction pooler, a lost connection) it polls a little faster; nothing
 * ever depends on a hint.
 */

import type { Logger } from "@waybill/core";
import { wakeChannel } from "@waybill/postgres";
import { pause, retryDelayMs } from "./pause.ts";
import type { DatabaseSession, RelayDatabase } from "./relay-database.ts";

/** Options of {@link WakeUp}. */
export interface WakeUpOptions {
  readonly database: RelayDatabase;
  readonly schema: string;
  readonly idlePollMs: number;
  readonly logger: Logger;
  readonly random: () => number;
}

const busyPollMs = 2;
const busyForMs = 60;
const pollMostMs = 50;
const pingEveryMs = 5_000;
const selfTestMs = 2_000;

/** See the head of the file. */
export class WakeUp {
  readonly #options: WakeUpOptions;
  #mode: "listening" | "polling" = "polling";
  #hinted = false;
  #busyUntilMs = 0;
  #idleTurns = 0;
  #hint = Promise.withResolvers<void>();

  constructor(options: WakeUpOptions) {
    this.#options = options;
  }

  /** Whether hints reach the relay. */
  get mode(): "listening" | "polling" {
    return this.#mode;
  }

  /** There is something to read: look at once. */
  hint(): void {
    this.#hinted = true;
    this.#hint.resolve();
  }

  /** To be called before each look, with whether the last one found rows. */
  looking(found: boolean): void {
    this.#hinted = false;
    if (!found) return;
    this.#busyUntilMs = performance.now() + busyForMs;
    this.#idleTurns = 0;
  }

  /** Waits until it is time to look again. */
  async wait(signal: AbortSignal): Promise<void> {
    if (this.#hinted) return;
    this.#hint = Promise.withResolvers<void>();
    await Promise.race([this.#hint.promise, pause(this.#delayMs(), signal)]);
  }

  #delayMs(): number {
    if (performance.now() < this.#busyUntilMs) return busyPollMs;
    const { idlePollMs, random } = this.#options;
    // Relays that started together do not poll together.
    if (this.#mode === "listening") return idlePollMs * (0.75 + random() / 4);
    this.#idleTurns += 1;
    return Math.min(idlePollMs, pollMostMs, busyPollMs * 1.5 ** Math.min(20, this.#idleTurns));
  }

  /** Keeps the hints coming until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { database, logger, random } = this.#options;
    if (database.pooled) {
      logger.info({}, "database is behind a transaction pooler, polling");
      return;
    }
    for (let failures = 0; !signal.aborted;) {
      try {
        await this.#listen(signal);
        failures = 0;
      } catch (err) {
        failures += 1;
        if (failures === 1) logger.warn({ err }, "listener lost, polling");
      }
      this.#mode = "polling";
      await pause(retryDelayMs(failures, 200, 5_000, random), signal);
    }
  }

  /** One connection's life as a listener. */
  async #listen(signal: AbortSignal): Promise<void> {
    const session = await this.#options.database.openSession();
    try {
      session.client.on("notification", () => {
        this.#mode = "listening";
        this.hint();
      });
      await session.store.listen();
      await this.#test(session, signal);
      while (!signal.aborted) {
        await Promise.race([pause(pingEveryMs, signal), session.ended.then(lost)]);
        if (!signal.aborted) await answers(session);
      }
    } finally {
      await session.close();
    }
  }

  /** A hint sent by another connection has to arrive here, or something between swallows them. */
  async #test(session: DatabaseSession, signal: AbortSignal): Promise<void> {
    const { database, schema, logger } = this.#options;
    await database.store.notify(wakeChannel(schema));
    const until = performance.now() + selfTestMs;
    while (this.#mode === "polling" && performance.now() < until && !signal.aborted) {
      await pause(10, signal);
    }
    if (this.#mode === "listening") logger.info({}, "listening for new jobs");
    else if (!signal.aborted) {
      logger.warn({}, "hints do not reach this connection, polling");
      // Asked again now and then: a proxy may have been replaced.
      await Promise.race([pause(60_000, signal), session.ended]);
      throw new Error("hints do not reach this connection");
    }
  }
}

function lost(): never {
  throw new Error("the listener's connection has ended");
}

/** Rejects if the session does not answer in a few seconds: a half-open connection says nothing. */
async function answers(session: DatabaseSession): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("the listener does not answer")), pingEveryMs);
  const answer = session.store.backend();
  answer.catch(() => undefined);
  try {
    await Promise.race([answer, promise]);
  } finally {
    clearTimeout(timer);
  }
}
