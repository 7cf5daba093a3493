/** Settings of queues in words, for the audit log and for people. */

import { type QueueSettings, queueSettingNames, type RateLimit } from "@waybill/core";

const unitsMs: readonly (readonly [unit: string, ms: number])[] = [
  ["s", 1_000],
  ["m", 60_000],
  ["h", 3_600_000],
  ["d", 86_400_000],
];

/** A rate as `200/s`, with its burst where one is set: `200/s burst 20`. */
export function rateWords({ limit, perMs = 1_000, burst }: RateLimit): string {
  const unit = unitsMs.find(([, ms]) => ms === perMs)?.[0] ?? `${perMs} ms`;
  return `${limit}/${unit}${burst === undefined ? "" : ` burst ${burst}`}`;
}

function isRate(value: object): value is RateLimit {
  return "limit" in value && typeof value.limit === "number";
}

/** One setting in a few words; `none` for one that is not there. */
export function settingWords(value: QueueSettings[keyof QueueSettings] | null): string {
  if (value === undefined || value === null) return "none";
  if (typeof value === "object" && isRate(value)) return rateWords(value);
  return JSON.stringify(value);
}

/** What differs between two settings: `concurrency 10 -> 50, rate none -> 200/s`; empty: nothing. */
export function changeWords(before: QueueSettings, after: QueueSettings): string {
  return queueSettingNames
    .map((name) => [name, settingWords(before[name]), settingWords(after[name])] as const)
    .filter(([, from, to]) => from !== to)
    .map(([name, from, to]) => `${name} ${from} -> ${to}`)
    .join(", ");
}
