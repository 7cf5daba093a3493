/**
 * What can be said of a queue: limits, rates, priority, order, fairness. Declared in code by
 * `defineQueue`, changed at run time in the database; both are checked here.
 */

import { z } from "zod";
import type { ConfigIssue } from "./errors.ts";
import { isTypeName } from "./names.ts";

/** A rate, kept by a token bucket. */
export interface RateLimit {
  /** Starts in {@link RateLimit.perMs}; 1 to 1,000,000. */
  readonly limit: number;
  /**
   * Milliseconds; 1 to a day.
   * @default 1000
   */
  readonly perMs?: number | undefined;
  /**
   * Starts that may come at once after a quiet time; 1 to 1,000,000. In any time t no more than
   * `limit * t / perMs + burst` jobs are claimed by workers, however long their way there takes (up to 10 s). A
   * burst below one start and what the rate gives in 50 ms counts as that much.
   * @default a tenth of a second's worth, 1 at least
   */
  readonly burst?: number | undefined;
}

/** What holds for one concurrency key. */
export interface KeyLimits {
  /** Jobs of one key at a time, over all workers; 1 to 10,000. None: no limit. */
  readonly concurrency?: number | undefined;
  /** Starts of one key. */
  readonly rate?: RateLimit | undefined;
  /**
   * Share of a key beside the others that have work; 1 to 1000.
   * @default 1
   */
  readonly weight?: number | undefined;
}

/** Fair sharing between concurrency keys, and limits for each of them. */
export interface KeySettings extends KeyLimits {
  /** Limits that replace those above for keys of a tier; a key's tier is set at run time. */
  readonly tiers?: Readonly<Record<string, KeyLimits>> | undefined;
}

/** What holds for one job type of a queue. */
export interface TypeLimits {
  /** Jobs of the type at a time, over all workers; 1 to 10,000. None: no limit. */
  readonly concurrency?: number | undefined;
  /** Starts of the type. */
  readonly rate?: RateLimit | undefined;
  /** Dependencies without which its jobs wait; see `defineDependency`. */
  readonly dependsOn?: readonly string[] | undefined;
}

/** Priorities. */
export interface PrioritySettings {
  /**
   * Milliseconds of waiting that lift a job by one priority, in which its lane has had no turn; 100 to
   * a day. So the first job of a lane waits for no more than (difference of priorities) times this.
   * @default 10000
   */
  readonly agingMs?: number | undefined;
}

/** Strict order by ordering key. */
export interface OrderSettings {
  /**
   * Failed attempts after which a head that waits for its retry lets its key go on without it; 1 to
   * 100. None: it blocks its key until it ends.
   */
  readonly parkAfterAttempts?: number | undefined;
  /** The same by its age since it was enqueued, in milliseconds; 1 to 30 days. */
  readonly parkAfterMs?: number | undefined;
}

/** How many jobs may wait. */
export interface WaitingLimits {
  /** Jobs of the queue that were enqueued and not dispatched yet; 1 to 100,000. */
  readonly jobs?: number | undefined;
  /** The same of one concurrency key. */
  readonly perKey?: number | undefined;
  /**
   * `refuse`: enqueue throws a QueueFullError; `drop_oldest`: the job that has waited longest is
   * cancelled.
   * @default "refuse"
   */
  readonly whenFull?: "refuse" | "drop_oldest" | undefined;
}

/** Settings of a queue. A queue with none of them, or with `concurrency` alone, is pass-through. */
export interface QueueSettings {
  /** Jobs at a time, over all workers; 1 to 10,000. None: no limit. */
  readonly concurrency?: number | undefined;
  /** Starts of the queue. */
  readonly rate?: RateLimit | undefined;
  readonly priority?: PrioritySettings | undefined;
  readonly keys?: KeySettings | undefined;
  /** By job name. */
  readonly types?: Readonly<Record<string, TypeLimits>> | undefined;
  readonly order?: OrderSettings | undefined;
  /** Dependencies without which the queue's jobs wait. */
  readonly dependsOn?: readonly string[] | undefined;
  readonly maxWaiting?: WaitingLimits | undefined;
}

/** Names of the settings. */
export const queueSettingNames: readonly (keyof QueueSettings)[] = [
  "concurrency",
  "rate",
  "priority",
  "keys",
  "types",
  "order",
  "dependsOn",
  "maxWaiting",
];

const day = 86_400_000;
const limitMax = 10_000;
const concurrency = z.int().min(1).max(limitMax).optional();
const rate = z
  .strictObject({
    limit: z.int().min(1).max(1_000_000),
    perMs: z.int().min(1).max(day).optional(),
    burst: z.int().min(1).max(1_000_000).optional(),
  })
  .optional();
const keyLimits = { concurrency, rate, weight: z.int().min(1).max(1_000).optional() };
const tierName = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, {
  message: "a tier's name has lower case letters, digits, '.', '_' and '-', at most 63",
});
/** Names of dependencies. */
export const dependencyName: z.ZodType<string, string> = z.string().refine(isTypeName, {
  message: "a dependency's name has letters, digits, '.', '_', '-', ':' and '/', at most 128",
});
const dependsOn = z.array(dependencyName).min(1).max(10).optional();
const jobName = z.string().refine(isTypeName, { message: "expected the name of a job" });

/** Schema of {@link QueueSettings}; what does not fit together is found by {@link settingsMisfits}. */
export const queueSettings: z.ZodType<QueueSettings, QueueSettings> = z.strictObject({
  concurrency,
  rate,
  priority: z.strictObject({ agingMs: z.int().min(100).max(day).optional() }).optional(),
  keys: z
    .strictObject({
      ...keyLimits,
      tiers: z.record(tierName, z.strictObject(keyLimits)).optional(),
    })
    .optional(),
  types: z.record(jobName, z.strictObject({ concurrency, rate, dependsOn })).optional(),
  order: z
    .strictObject({
      parkAfterAttempts: z.int().min(1).max(100).optional(),
      parkAfterMs: z
        .int()
        .min(1)
        .max(30 * day)
        .optional(),
    })
    .optional(),
  dependsOn,
  maxWaiting: z
    .strictObject({
      jobs: z.int().min(1).max(100_000).optional(),
      perKey: z.int().min(1).max(100_000).optional(),
      whenFull: z.enum(["refuse", "drop_oldest"]).optional(),
    })
    .optional(),
});

/** Starts a millisecond and tokens of a rate's bucket, with every default filled in. */
export function bucketOf(limit: RateLimit): { readonly perMs: number; readonly burst: number } {
  const perMs = limit.limit / (limit.perMs ?? 1_000);
  return { perMs, burst: limit.burst ?? Math.max(1, Math.ceil(perMs * 100)) };
}

/** What a queue's settings say that its jobs of a type depend on. */
export function dependsOnOf(settings: QueueSettings, type: string): readonly string[] {
  const { dependsOn: ofQueue = [], types = {} } = settings;
  const ofType = Object.hasOwn(types, type) ? types[type]?.dependsOn : undefined;
  return ofType === undefined ? ofQueue : [...ofQueue, ...ofType];
}

/** What holds for a key of a tier, null for none. Jobs without a key, "", are no tenant with limits. */
export function keyLimitsOf(settings: QueueSettings, key: string, tier: string | null): KeyLimits {
  if (key === "") return {};
  const { keys } = settings;
  const ofTier = tier === null ? undefined : keys?.tiers?.[tier];
  return {
    concurrency: ofTier?.concurrency ?? keys?.concurrency,
    rate: ofTier?.rate ?? keys?.rate,
    weight: ofTier?.weight ?? keys?.weight,
  };
}

/** What contradicts itself in settings whose parts may be anything. */
export function settingsMisfits(settings: QueueSettings): ConfigIssue[] {
  const issues: ConfigIssue[] = [];
  const { concurrency: all, keys, types, maxWaiting } = settings;
  const notAbove = (path: string, part: number | undefined): void => {
    if (typeof part === "number" && typeof all === "number" && part > all) {
      issues.push({
        path,
        message: `is ${part}, more than the queue's own limit of ${all}, so it would never be reached`,
      });
    }
  };
  notAbove("keys.concurrency", keys?.concurrency);
  for (const [tier, limits] of Object.entries(keys?.tiers ?? {})) {
    notAbove(`keys.tiers.${tier}.concurrency`, limits?.concurrency);
  }
  for (const [type, limits] of Object.entries(types ?? {})) {
    notAbove(`types.${type}.concurrency`, limits?.concurrency);
  }
  if (maxWaiting !== undefined && maxWaiting !== null && typeof maxWaiting === "object") {
    const { jobs, perKey } = maxWaiting;
    if (jobs === undefined && perKey === undefined) {
      issues.push({ path: "maxWaiting", message: "needs jobs, perKey, or both" });
    } else if (jobs !== undefined && perKey !== undefined && perKey > jobs) {
      issues.push({
        path: "maxWaiting.perKey",
        message: `is ${perKey}, more than maxWaiting.jobs, which is ${jobs}`,
      });
    }
  }
  return issues;
}
