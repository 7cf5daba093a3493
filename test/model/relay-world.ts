/**
 * Relays in a model world: the window reader, the dispatcher with its page ledger and its publisher, the
 * cursor saver and the term are the product's own, put together as `lead.ts` does; the database and
 * the broker are models whose every answer is the schedule's choice. Time is vitest's fake clock, so
 * that a schedule always goes the same way.
 */

import { vi } from "vitest";
import { silentLogger } from "@waybill/core";
import { names } from "@waybill/rabbitmq";
import { CursorSaver } from "../../packages/relay/src/cursor-saver.ts";
import { Destinations } from "../../packages/relay/src/destinations.ts";
import { Dispatcher } from "../../packages/relay/src/dispatcher.ts";
import { loadCursor } from "../../packages/relay/src/position-check.ts";
import type { RelayDatabase } from "../../packages/relay/src/relay-database.ts";
import { Term } from "../../packages/relay/src/term.ts";
import { WakeUp } from "../../packages/relay/src/wake-up.ts";
import { readOutbox } from "../../packages/relay/src/window-reader.ts";
import { type Limits, visibleIn } from "./model-outbox.ts";
import { type Fate, ModelLink } from "./model-link.ts";
import { ModelRelayDatabase, type RelayRow } from "./model-relay-store.ts";

const leaseMs = 2_500;
/** Only a rescan would ask for it. */
const patient = (): Promise<never> => Promise.reject(new Error("not in the model"));
const half = (): number => 0.5;

/** Options of {@link RelayWorld}. */
export interface RelayWorldOptions {
  readonly limits: Limits;
  /** As behind a transaction pooler. */
  readonly strict: boolean;
}

interface RunningRelay {
  readonly number: number;
  readonly link: ModelLink;
  readonly stop: AbortController;
  /** Resolves when it has ended, for whatever reason. */
  readonly ended: Promise<void>;
  isOver: boolean;
  /** Ends it as a kill does: nothing it does counts any more. */
  readonly kill: () => void;
  /** The session to the database has ended. */
  readonly disconnect: () => void;
}

/** See the head of the file. */
export class RelayWorld {
  readonly database = new ModelRelayDatabase();
  readonly #options: RelayWorldOptions;
  readonly #poison = new Set<string>();
  readonly #written = new Set<string>();
  #relays: RunningRelay[] = [];
  #ended: Promise<void>[] = [];
  #jobs = 0;
  /** What must never be: shown at the end of the step in which it was. */
  #wrong: string | undefined;

  constructor(options: RelayWorldOptions) {
    this.#options = options;
  }

  /** One of the relays that run: the last is the one with the term. */
  relay(pick: number): RunningRelay | undefined {
    return this.#relays[pick % Math.max(1, this.#relays.length)];
  }

  insert(session: number, key: string | null, bytes: number, isPoison: boolean): void {
    const id = `job-${(this.#jobs += 1)}`;
    if (isPoison) this.#poison.add(id);
    this.database.outbox.insert(session, { ...plainRow, id, ordering_key: key, bytes });
  }

  /** A relay takes the term; one that had it goes on as a zombie. */
  start(): void {
    this.database.epoch += 1;
    const number = this.database.epoch;
    const link = new ModelLink({
      isPoison: (id) => this.#poison.has(id),
      onWritten: (id) => this.#onWritten(id),
      onStored: (id) => this.database.safe.add(id),
    });
    const stop = new AbortController();
    const death = new AbortController();
    const relay: RunningRelay = {
      number,
      link,
      stop,
      isOver: false,
      ended: this.#lead(number, link, stop.signal, death).finally(() => {
        relay.isOver = true;
        this.#relays = this.#relays.filter((each) => each !== relay);
      }),
      kill: () => {
        this.database.forget(number);
        link.lose();
        death.abort();
      },
      disconnect: () => death.abort(),
    };
    this.#relays.push(relay);
    this.#ended.push(relay.ended);
    if (this.#relays.length > 3) this.#relays[0]?.kill();
  }

  /** What `lead.ts` does, without governed queues and housekeeping. */
  async #lead(
    number: number,
    connection: ModelLink,
    stop: AbortSignal,
    ending: AbortController,
  ): Promise<void> {
    const store = this.database.storeOf(number);
    const epoch = String(number);
    const common = { store, epoch, logger: this.#logger, failpoint: () => undefined };
    const fail = (): void => ending.abort();
    const takenAtMs = performance.now();
    const term = new Term({ ...common, leaseMs, takenAtMs });
    const destinations = new Destinations({
      connection,
      prefix: "waybill",
      mode: "off",
      logger: silentLogger,
      onReady: () => undefined,
      onProblem: () => undefined,
    });
    const saver = new CursorSaver({ ...common, onFailed: fail });
    const dispatcher = new Dispatcher({
      ...common,
      connection,
      destinations,
      names: names("waybill"),
      signing: undefined,
      origin: undefined,
      confirmTimeoutMs: 10_000,
      random: half,
      counts: { published: 0, republished: 0, parked: 0 },
      onSettled: (cursor, hadRows) => saver.note(cursor, !hadRows),
      onFailed: fail,
      onParked: () => undefined,
    });
    const stopListening = connection.onReady(() => dispatcher.pump());
    const pumping = setInterval(() => dispatcher.pump(), 250);
    // Not waited for at the end: it may be in the middle of a question that nobody answers.
    void term.keep(ending.signal).catch(fail);
    // A process that is dead waits for no answer.
    const dead = new Promise<void>((resolve) => {
      ending.signal.addEventListener("abort", () => resolve(), { once: true });
    });
    const reading = async (): Promise<void> => {
      const cursor = await loadCursor(store, patient, epoch, false, silentLogger);
      await readOutbox(
        {
          ...common,
          term,
          dispatcher,
          destinations,
          wakeUp: new WakeUp({ ...wakeUpOptions, logger: silentLogger }),
          governor: { governs: () => false, take: () => undefined },
          cursor,
          limits: this.#options.limits,
          strict: this.#options.strict,
          saved: () => saver.flush(),
        },
        AbortSignal.any([stop, ending.signal]),
      );
      await dispatcher.drain(5_000);
      await saver.flush();
    };
    await Promise.race([reading().catch(fail), dead]);
    clearInterval(pumping);
    stopListening();
    saver.stop();
    ending.abort();
    this.database.forget(number);
    await connection.close();
    void dispatcher.close();
  }

  /** The publisher says there what must not have happened. */
  readonly #logger = {
    ...silentLogger,
    error: (fields: object): void => {
      const { err } = fields as { readonly err?: unknown };
      this.#wrong ??= err instanceof Error ? err.message : "an error was logged";
    },
  };

  #onWritten(id: string): void {
    const { rows } = this.database.outbox;
    const row = rows.find((each) => each.id === id);
    if (row === undefined) {
      this.#wrong ??= `${id} is published and was never committed`;
      return;
    }
    if (this.#written.has(id)) return;
    this.#written.add(id);
    const { ordering_key: key } = row;
    if (key === null) return;
    const before = rows.slice(0, rows.indexOf(row)).filter((each) => each.ordering_key === key);
    const skipped = before.find((each) => !this.#written.has(each.id));
    if (skipped !== undefined) this.#wrong ??= `${id} is published before ${skipped.id} of its key`;
  }

  /** Lets everything that can happen without the world's doing happen; throws what was wrong. */
  async settle(): Promise<void> {
    // Promises only, and three turns of setImmediate at most, one behind the other.
    for (let turn = 0; turn < 4; turn += 1) {
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    if (this.#wrong !== undefined) throw new Error(this.#wrong);
  }

  /**
   * A moment in which everything gets on: statements are answered, what is written meets its fates in turn and
   * is confirmed, cursors are saved.
   *
   * @param breaks the links are lost after so many messages as there are fates, and there again
   */
  async serve(fates: readonly Fate[], multiple: boolean, breaks = false): Promise<void> {
    this.database.answerAll();
    await this.settle();
    for (const { link } of this.#relays) {
      const taken = breaks ? fates.length : 8;
      link.take(Array.from({ length: taken }, (_, n) => fates[n % fates.length] ?? "ack"));
      // The last first: with multiple confirms that is all of them.
      for (let left = multiple || !breaks ? 8 : 0; left > 0; left -= 1) {
        link.confirm(multiple ? left - 1 : 0, multiple);
      }
      if (breaks) {
        link.lose();
        link.connect();
      }
    }
    await this.settle();
    vi.advanceTimersByTime(21);
    await this.settle();
  }

  /** The faults are over: everything has to come to its end. Returns the rows that were skipped. */
  async drain(): Promise<readonly string[]> {
    const { outbox } = this.database;
    for (const session of outbox.sessions) this.database.commit(session);
    const isDone = (): boolean => {
      const { snapshot, window } = this.database.cursor;
      return window === null && outbox.rows.every(({ tx }) => visibleIn(snapshot ?? "1:1:")(tx));
    };
    for (let rounds = 0; !isDone(); rounds += 1) {
      if (rounds > 1_000) throw new Error("the relay does not come to an end");
      if (this.#relays.at(-1)?.number !== this.database.epoch) this.start();
      for (const { link } of this.#relays) {
        link.block(false);
        link.connect();
        link.drain();
      }
      await this.serve(["ack"], false);
    }
    return outbox.rows.map(({ id }) => id).filter((id) => !this.database.safe.has(id));
  }

  /** Ends all that runs. */
  async close(): Promise<void> {
    for (const relay of this.#relays) relay.kill();
    await Promise.all(this.#ended);
    vi.clearAllTimers();
  }
}

const wakeUpOptions = {
  database: {} as RelayDatabase,
  schema: "waybill",
  idlePollMs: 250,
  random: half,
} as const;

const plainRow: Omit<RelayRow, "id" | "ordering_key" | "bytes"> = {
  kind: "job",
  dispatch: 1,
  queue: "q",
  type: "t",
  version: 1,
  exchange: null,
  routing_key: null,
  payload: "{}",
  payload_base64: false,
  headers: null,
  priority: null,
  correlation_id: null,
  expires_at: null,
  enqueued_at: new Date(0),
  created_at: new Date(0),
  failures: 0,
};
