/**
 * Settings of a queue as the flags of `waybill queue set` say them. Parts of a setting are put into the
 * one that holds, so that `--burst` alone changes the burst of the present rate.
 */

import { ConfigError, type QueueSettings, queueSettingNames, type RateLimit } from "@waybill/core";
import type { QueueChange } from "@waybill/postgres";
import { parseDuration } from "./duration.ts";

/** The flags; `none` takes away. */
export interface QueueFlags {
  readonly concurrency?: number | "none" | undefined;
  readonly rate?: RateLimit | "none" | undefined;
  readonly burst?: number | undefined;
  readonly keyConcurrency?: number | "none" | undefined;
  readonly keyRate?: RateLimit | "none" | undefined;
  readonly weight?: number | "none" | undefined;
  /** Milliseconds. */
  readonly aging?: number | "none" | undefined;
  readonly order?: boolean | undefined;
  readonly maxWaiting?: number | "none" | undefined;
  readonly whenFull?: "refuse" | "drop_oldest" | undefined;
  /** The rest as JSON: an object with some of the settings. */
  readonly settings?: string | undefined;
}

/** A rate as `200/s`, `10/5m` or `1/100ms`; undefined for anything else. */
export function parseRate(text: string): RateLimit | undefined {
  const match = /^(\d{1,9})\/(\d{0,8})(ms|s|m|h|d)$/.exec(text.trim());
  if (match === null) return undefined;
  const perMs = parseDuration(`${match[2] || "1"}${match[3] ?? ""}`);
  if (perMs === undefined) return undefined;
  return { limit: Number(match[1]), ...(perMs === 1_000 ? {} : { perMs }) };
}

const problem = (path: string, message: string): ConfigError =>
  new ConfigError("the waybill command", [{ path, message }]);

function parseSettings(text: string): QueueChange {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw problem("--settings", `expected JSON: ${(error as Error).message}`);
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw problem("--settings", `expected an object with some of ${queueSettingNames.join(", ")}`);
}

type Part = readonly [name: string, value: unknown];

/** A setting with parts of it replaced; undefined where no part is given. */
function withParts<T extends object>(
  present: T | null | undefined,
  parts: readonly Part[],
): T | undefined {
  const given = parts.filter(([, value]) => value !== undefined);
  if (given.length === 0) return undefined;
  const all = Object.entries({ ...present, ...Object.fromEntries(given) });
  return Object.fromEntries(all.filter(([, value]) => value !== "none")) as T;
}

function rateAfter(
  present: RateLimit | null | undefined,
  { rate, burst }: QueueFlags,
): RateLimit | null | undefined {
  if (rate === "none" && burst !== undefined) {
    throw problem("--burst", "does not go together with --rate none");
  }
  if (rate === "none") return null;
  if (rate !== undefined) return { ...rate, ...(burst === undefined ? {} : { burst }) };
  if (burst === undefined) return undefined;
  if (present === undefined || present === null) {
    throw problem("--burst", "needs --rate: the queue has no rate");
  }
  return { ...present, burst };
}

const unlessNone = <T>(value: T | "none" | undefined): T | null | undefined =>
  value === "none" ? null : value;

/**
 * What the flags change of the settings that hold.
 *
 * @throws ConfigError for flags that contradict each other, and where there is none
 */
export function changeOf(flags: QueueFlags, present: QueueSettings): QueueChange {
  const given = flags.settings === undefined ? {} : parseSettings(flags.settings);
  const base = { ...present, ...given };
  const { maxWaiting, aging, order } = flags;
  const ofFlags: QueueChange = {
    concurrency: unlessNone(flags.concurrency),
    rate: rateAfter(base.rate, flags),
    keys: withParts(base.keys, [
      ["concurrency", flags.keyConcurrency],
      ["rate", flags.keyRate],
      ["weight", flags.weight],
    ]),
    priority: aging === "none" ? null : withParts(base.priority, [["agingMs", aging]]),
    order: order === undefined ? undefined : order ? (base.order ?? {}) : null,
    maxWaiting:
      maxWaiting === "none"
        ? null
        : withParts(base.maxWaiting, [
            ["jobs", maxWaiting],
            ["whenFull", flags.whenFull],
          ]),
  };
  const set = Object.entries(ofFlags).filter(([, value]) => value !== undefined);
  const change = { ...given, ...Object.fromEntries(set) };
  if (Object.keys(change).length > 0) return change;
  throw problem("queue set", "name what to set, such as --concurrency 10 or --rate 200/s");
}
