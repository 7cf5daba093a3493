/** What holds for queues, types and keys, made of the settings and gates in the database. */

import {
  bucketOf,
  dependsOnOf,
  keyLimitsOf,
  type QueueSettings,
  type RateLimit,
} from "@waybill/core";
import type { GateRecord, Governance, QueueFlow } from "@waybill/postgres";
import type { BucketSize } from "./token-bucket.ts";

/** Limits of a queue, a type or a key; Infinity for none. */
export interface Limits {
  readonly concurrency: number;
  readonly bucket: BucketSize | undefined;
  /** By the monotonic clock: nothing goes before; Infinity while it is paused. */
  readonly closedUntilMs: number;
}

/** Limits of a key, with its share. */
export interface ResolvedKeyLimits extends Limits {
  readonly weight: number;
}

/** Limits of a type, with what it depends on. */
export interface ResolvedTypeLimits extends Limits {
  readonly dependsOn: readonly string[];
}

/** Everything that holds for one queue. */
export interface QueueLimits extends Limits {
  /** False: nothing speaks against publishing its rows as they come. */
  readonly governed: boolean;
  /** True where starts are counted: nothing is dispatched ahead then. */
  readonly rated: boolean;
  readonly agingMs: number;
  ofKey(key: string): ResolvedKeyLimits;
  ofType(type: string): ResolvedTypeLimits;
}

const agingMsDefault = 10_000;

const closedUntil = (
  row: { readonly paused: boolean; readonly closedMs: number | null } | undefined,
  nowMs: number,
): number => {
  if (row === undefined) return 0;
  return row.paused ? Infinity : nowMs + (row.closedMs ?? -Infinity);
};

const bucket = (rate: RateLimit | undefined): BucketSize | undefined =>
  rate === undefined ? undefined : bucketOf(rate);

function resolvedKeyLimits(
  settings: QueueSettings,
  key: string,
  gate: GateRecord | undefined,
  nowMs: number,
): ResolvedKeyLimits {
  const { concurrency, rate, weight } = keyLimitsOf(settings, key, gate?.tier ?? null);
  return {
    concurrency: concurrency ?? Infinity,
    bucket: bucket(rate),
    weight: weight ?? 1,
    closedUntilMs: closedUntil(gate, nowMs),
  };
}

const isShut = ({ paused, closedMs }: GateRecord): boolean => paused || (closedMs ?? 0) > 0;

/** The limits of one queue. */
export function queueLimitsOf(
  queue: QueueFlow,
  gates: readonly GateRecord[],
  nowMs: number,
): QueueLimits {
  const { settings } = queue;
  const named = (kind: GateRecord["kind"]): ReadonlyMap<string, GateRecord> =>
    new Map(
      gates
        .filter((gate) => gate.queue === queue.name && gate.kind === kind)
        .map((gate) => [gate.name, gate]),
    );
  const types = named("type");
  const keys = named("key");
  const shut = [...types.values(), ...keys.values()].some(isShut);
  return {
    governed: queue.governed || shut,
    rated: settings.rate !== undefined,
    concurrency: settings.concurrency ?? Infinity,
    bucket: bucket(settings.rate),
    closedUntilMs: closedUntil(queue, nowMs),
    agingMs: settings.priority?.agingMs ?? agingMsDefault,
    ofKey: (key) => resolvedKeyLimits(settings, key, keys.get(key), nowMs),
    ofType(type) {
      const own = settings.types?.[type];
      return {
        concurrency: own?.concurrency ?? Infinity,
        bucket: bucket(own?.rate),
        closedUntilMs: closedUntil(types.get(type), nowMs),
        dependsOn: dependsOnOf(settings, type),
      };
    },
  };
}

/** The limits of every queue that something is said of. */
export function limitsOf(governance: Governance, nowMs: number): ReadonlyMap<string, QueueLimits> {
  const { queues, gates } = governance;
  const rows = new Map(queues.map((queue) => [queue.name, queue]));
  for (const { queue } of gates) {
    if (!rows.has(queue)) {
      rows.set(queue, {
        name: queue,
        settings: {},
        governed: false,
        paused: false,
        closedMs: null,
      });
    }
  }
  return new Map(
    [...rows.values()].map((queue) => [queue.name, queueLimitsOf(queue, gates, nowMs)]),
  );
}

/** Limits where nothing is said. */
export const noLimits: QueueLimits = queueLimitsOf(
  { name: "", settings: {}, governed: false, paused: false, closedMs: null },
  [],
  0,
);
