/**
 * What is said of this worker's queues at run time: settings, pauses, open breakers, shares of limits.
 * Polled and not listened for, as requests are: it works through every pooler, and a look is one small
 * statement that answers with a number while nothing has changed. While the database is away, what was
 * seen last holds.
 */

import { dependsOnOf, type Envelope, type Logger, type QueueSettings } from "@waybill/core";
import type { FlowReading, FlowStore, WorkerShare } from "@waybill/postgres";
import { LoopPause } from "./loop-pause.ts";

/** Milliseconds between two looks: with the relay's, a change is here within a second. */
export const flowMs = 400;
/** The same while the first grant of the relay is awaited. */
const soonMs = 100;
/** Least time between two looks, in milliseconds. */
const flowMinMs = 25;
/** A relay that is just being started has so long to take a term, in milliseconds. */
const relayStartMs = 5_000;
/** A term that ended before so long, in milliseconds, was not lost a moment ago. */
const relayIdleMaxMs = 60_000;

/** Options of {@link FlowView}. */
export interface FlowViewOptions {
  readonly store: Pick<FlowStore, "read">;
  readonly queues: readonly string[];
  /** Undefined while this worker has no presence. */
  readonly bootId: () => string | undefined;
  readonly logger: Logger;
  /** Called after each look, before the shares are settled. */
  readonly onLook: () => void;
  /** Takes the shares as they were read; resolves to true where news of them is awaited. */
  readonly onShares: (worker: string, shares: readonly WorkerShare[]) => Promise<boolean>;
}

/** Why a queue's deliveries are not to be taken. */
export type QueueShutReason = "queue paused" | "queue closed";

interface View {
  readonly governed: ReadonlySet<string>;
  readonly settings: ReadonlyMap<string, QueueSettings>;
  readonly paused: ReadonlySet<string>;
  /** When taps open, by the monotonic clock. */
  readonly closedUntil: ReadonlyMap<string, number>;
  /** Queues with a paused type or key, and until when with a closed one. */
  readonly gated: ReadonlyMap<string, number>;
  /** The same of each type and key, by queue, kind and name. */
  readonly shutUntil: ReadonlyMap<string, number>;
  readonly open: ReadonlySet<string>;
}

const nothing: View = {
  governed: new Set(),
  settings: new Map(),
  paused: new Set(),
  closedUntil: new Map(),
  gated: new Map(),
  shutUntil: new Map(),
  open: new Set(),
};

const gateId = (queue: string, kind: "type" | "key", name: string): string =>
  `${queue}\n${kind}\n${name}`;

/** See the head of the file. */
export class FlowView {
  readonly #options: FlowViewOptions;
  readonly #pause = new LoopPause(flowMinMs);
  readonly #startedAt = performance.now();
  #view: View = nothing;
  #revision = "0";
  #relayIdleMs: number | null = null;
  #hasComplained = false;
  #loop: Promise<void> | undefined;

  constructor(options: FlowViewOptions) {
    this.#options = options;
  }

  /** True where the queue's jobs need slots: by its settings, or for a pause of one of its types or keys. */
  governs(queue: string): boolean {
    const { governed, gated } = this.#view;
    return governed.has(queue) || (gated.get(queue) ?? 0) > performance.now();
  }

  /** What holds for the queue: its declared settings with an operator's. */
  settings(queue: string): QueueSettings {
    return this.#view.settings.get(queue) ?? {};
  }

  /** Why nothing of the queue may start now; undefined: it may. */
  shutReason(queue: string): QueueShutReason | undefined {
    const { paused, closedUntil } = this.#view;
    if (paused.has(queue)) return "queue paused";
    return (closedUntil.get(queue) ?? 0) > performance.now() ? "queue closed" : undefined;
  }

  /**
   * True where a job that was dispatched must not start now: its type or its key was paused since, or a
   * breaker has opened.
   */
  isHeldBack(queue: string, envelope: Envelope, dependsOn: readonly string[]): boolean {
    const { shutUntil, open } = this.#view;
    const now = performance.now();
    const { type, concurrencyKey: key } = envelope;
    const needed = [...dependsOn, ...dependsOnOf(this.settings(queue), type)];
    return (
      (shutUntil.get(gateId(queue, "type", type)) ?? 0) > now ||
      (key !== null && (shutUntil.get(gateId(queue, "key", key)) ?? 0) > now) ||
      needed.some((name) => open.has(name))
    );
  }

  /** True where the ordering key of a job waits for the retry of this attempt. */
  blocksOrder({ queue, enqueuedAt }: Envelope, attempt: number): boolean {
    const { parkAfterAttempts = Infinity, parkAfterMs = Infinity } =
      this.settings(queue).order ?? {};
    return attempt < parkAfterAttempts && Date.now() - enqueuedAt.getTime() < parkAfterMs;
  }

  /** Looks at once, also for who cannot wait for the next time. Errors of the driver pass through. */
  async look(): Promise<void> {
    const { store, queues, bootId, onLook, onShares } = this.#options;
    const me = bootId();
    const reading = await store.read(me, this.#revision, queues);
    this.#accept(reading);
    onLook();
    if (me !== undefined && (await onShares(me, reading.shares))) this.#pause.shorten(soonMs);
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Makes the next look come soon. */
  nudge(): void {
    this.#pause.end();
  }

  /** Looks no more. Never rejects. */
  async stop(): Promise<void> {
    this.#pause.stop();
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (!this.#pause.isStopped) {
      try {
        await this.look();
      } catch (err) {
        // The next look asks again; whether the database is down is the gate's to say.
        this.#options.logger.debug({ err }, "settings of queues could not be read");
      }
      await this.#pause.wait(flowMs);
    }
  }

  #accept({ revision, news, relayIdleMs }: FlowReading): void {
    this.#relayIdleMs = relayIdleMs;
    if (news !== undefined) {
      const now = performance.now();
      const until = (closedMs: number | null): number => now + (closedMs ?? 0);
      const gated = new Map<string, number>();
      const shutUntil = new Map<string, number>();
      for (const { queue, kind, name, paused, closedMs } of news.gates) {
        const end = paused ? Number.POSITIVE_INFINITY : until(closedMs);
        shutUntil.set(gateId(queue, kind, name), end);
        gated.set(queue, Math.max(end, gated.get(queue) ?? 0));
      }
      this.#view = {
        governed: new Set(news.queues.filter(({ governed }) => governed).map(({ name }) => name)),
        settings: new Map(news.queues.map(({ name, settings }) => [name, settings])),
        paused: new Set(news.queues.filter(({ paused }) => paused).map(({ name }) => name)),
        closedUntil: new Map(news.queues.map(({ name, closedMs }) => [name, until(closedMs)])),
        gated,
        shutUntil,
        open: new Set(news.open),
      };
      // Last: a view that could not be made is asked for again.
      this.#revision = revision;
    }
    this.#missRelay();
  }

  /** A governed queue needs the relay that reads the outbox of this very database. */
  #missRelay(): void {
    if (this.#hasComplained || performance.now() - this.#startedAt < relayStartMs) return;
    const idleMs = this.#relayIdleMs;
    const [queue] = this.#view.governed;
    if (queue === undefined || (idleMs !== null && idleMs < relayIdleMaxMs)) return;
    this.#hasComplained = true;
    const since = idleMs === null ? "ever" : `for ${Math.round(idleMs / 1_000)} s`;
    this.#options.logger.error(
      { queue },
      `no relay has led in this worker's database ${since}, and jobs of a governed queue run only when that relay dispatches them; ` +
        "the relay is down or works in another database: start one with this worker's databaseUrl and schema, or correct them here",
    );
  }
}
