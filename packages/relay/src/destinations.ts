/**
 * Sees to it that what the relay publishes has somewhere to go. In mode `assert` it declares the
 * exchanges at each connection, and a queue, with its dead-letter queue, before its first message.
 * In mode `check` it holds publishing back until the exchanges are there. Subscriptions' bindings are
 * the workers' business.
 */

import type { Logger } from "@waybill/core";
import {
  applyTopology,
  type BrokerConnection,
  type TopologyMode,
  topologyOf,
} from "@waybill/rabbitmq";
import { pause } from "./pause.ts";

/** Options of {@link Destinations}. */
export interface DestinationsOptions {
  readonly connection: BrokerConnection;
  readonly prefix: string;
  readonly mode: TopologyMode;
  readonly logger: Logger;
  /** Called when publishing may go on. */
  readonly onReady: () => void;
  /** Called with what is wrong; undefined: nothing any more. */
  readonly onProblem: (problem: string | undefined) => void;
}

const recheckMs = 2_000;
/**
 * Milliseconds until a queue that has gone is declared again: its consumers' channels hear of it first. RabbitMQ 3.10
 * moves a consumer whose channel has not to the new queue, and hands it nothing. Less than parked messages wait.
 */
const repairAfterMs = 500;

/** See the head of the file. */
export class Destinations {
  readonly #options: DestinationsOptions;
  /** Connection whose exchanges are known to be there. */
  #readyFor = 0;
  /** Queues that this relay has published to, or is about to. */
  readonly #queues = new Set<string>();
  readonly #problems = new Map<string, string>();
  /** Queues that are about to be declared again. */
  readonly #repairs = new Set<string>();
  #change = Promise.withResolvers<void>();

  constructor(options: DestinationsOptions) {
    this.#options = options;
  }

  /** True while the exchanges of the present connection are there, as far as is known. */
  get ready(): boolean {
    const { mode, connection } = this.#options;
    return mode === "off" || this.#readyFor === connection.generation;
  }

  /** Looks at the exchanges again: the broker said that one is missing. */
  doubt(): void {
    this.#readyFor = 0;
    this.#change.resolve();
  }

  /** Declares the queues that are new to this relay. Never rejects. */
  async ensure(queues: Iterable<string>): Promise<void> {
    if (this.#options.mode !== "assert") return;
    const fresh = [...new Set(queues)].filter((queue) => !this.#queues.has(queue));
    if (fresh.length > 0) await this.#declare(fresh);
  }

  /** Declares queues again in a moment: something published to them came back. */
  repair(queues: Iterable<string>): void {
    if (this.#options.mode !== "assert") return;
    const broken = [...new Set(queues)].filter((queue) => !this.#repairs.has(queue));
    if (broken.length === 0) return;
    for (const queue of broken) this.#repairs.add(queue);
    setTimeout(() => {
      for (const queue of broken) this.#repairs.delete(queue);
      void this.#declare(broken);
    }, repairAfterMs).unref();
  }

  async #declare(queues: readonly string[]): Promise<void> {
    for (const queue of queues) this.#queues.add(queue);
    // Without a connection they are declared with the next one.
    await this.#apply(queues).catch(() => undefined);
  }

  /** Applies exchanges and queues; false while an exchange is missing. */
  async #apply(queues: readonly string[]): Promise<boolean> {
    const { connection, prefix, mode, logger } = this.#options;
    const named = mode === "assert" ? queues : [];
    const report = await applyTopology(connection, topologyOf({ prefix, queues: named }), mode);
    let exchangesOk = true;
    for (const { kind, name, status, message } of report.results) {
      const wrong = status !== "ok" && status !== "unknown";
      if (wrong && kind === "exchange") exchangesOk = false;
      const problem = wrong ? (message ?? `${kind} ${name}: ${status}`) : undefined;
      if (problem === this.#problems.get(name)) continue;
      if (problem === undefined) this.#problems.delete(name);
      else {
        this.#problems.set(name, problem);
        logger.error({ [kind]: name, status }, problem);
      }
    }
    this.#options.onProblem(this.#problems.values().next().value);
    return exchangesOk;
  }

  /** Follows the connection until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { connection, mode, logger, onReady } = this.#options;
    if (mode === "off") return;
    const wake = (): void => this.#change.resolve();
    const stop = connection.onReady(wake);
    signal.addEventListener("abort", wake, { once: true });
    try {
      while (!signal.aborted) {
        const { generation } = connection;
        if (connection.state === "ready" && this.#readyFor !== generation) {
          try {
            if (await this.#apply([...this.#queues])) {
              this.#readyFor = generation;
              onReady();
              continue;
            }
          } catch (err) {
            logger.debug({ err }, "topology not applied");
          }
          await pause(recheckMs, signal);
          continue;
        }
        await Promise.race([this.#change.promise, pause(recheckMs, signal)]);
        this.#change = Promise.withResolvers<void>();
      }
    } finally {
      stop();
      signal.removeEventListener("abort", wake);
    }
  }
}
