/** Times of a worker that depend on each other. */

import type { ConfigIssue } from "@waybill/core";
import type { RecycleOptions } from "./recycle.ts";

/** The times of a worker's options, as far as they were given. */
export interface Times {
  readonly graceMs: number;
  readonly leaseMs: number;
  readonly heartbeatMs?: number | undefined;
  readonly consumerTimeoutMs: number;
  readonly holdMs?: number | undefined;
  readonly blockedWarnMs: number;
  readonly blockedMaxMs: number;
  readonly recycle: RecycleOptions;
}

/** Times that depend on others, where they were not given. */
export const derived = ({
  leaseMs,
  heartbeatMs,
  consumerTimeoutMs,
  holdMs,
}: Times): { readonly heartbeatMs: number; readonly holdMs: number } => ({
  heartbeatMs: heartbeatMs ?? Math.floor(leaseMs / 3),
  holdMs: holdMs ?? Math.min(600_000, Math.floor(consumerTimeoutMs / 2)),
});

/** What is wrong between times that are each within their bounds. */
export function contradictions(times: Times): readonly ConfigIssue[] {
  const { graceMs, leaseMs, consumerTimeoutMs, blockedWarnMs, blockedMaxMs, recycle } = times;
  const { heartbeatMs, holdMs } = derived(times);
  const issues: ConfigIssue[] = [];
  const refuse = (path: string, message: string): void => void issues.push({ path, message });
  if (3 * heartbeatMs > leaseMs) {
    refuse(
      "heartbeatMs",
      `is ${heartbeatMs}, but leaseMs (${leaseMs}) must be three heartbeats or more: a single one that is late would end the lease`,
    );
  }
  if (holdMs > 0.8 * consumerTimeoutMs) {
    refuse(
      "holdMs",
      `is ${holdMs}, but at most four fifths of consumerTimeoutMs (${consumerTimeoutMs}) are safe: the broker would close the channel under running jobs`,
    );
  }
  if (leaseMs > consumerTimeoutMs) {
    refuse(
      "leaseMs",
      `is ${leaseMs}, above consumerTimeoutMs (${consumerTimeoutMs}): the broker would give up a frozen worker's jobs while they are still its own`,
    );
  }
  if (blockedMaxMs <= blockedWarnMs) {
    refuse(
      "blockedMaxMs",
      `is ${blockedMaxMs}, but must be above blockedWarnMs (${blockedWarnMs})`,
    );
  }
  if (blockedMaxMs < heartbeatMs) {
    refuse(
      "blockedMaxMs",
      `is ${blockedMaxMs}, below heartbeatMs (${heartbeatMs}): the lease would end between two heartbeats`,
    );
  }
  if (recycle.maxAgeMs !== undefined && recycle.maxAgeMs <= graceMs) {
    refuse(
      "recycle.maxAgeMs",
      `is ${recycle.maxAgeMs}, but must be above graceMs (${graceMs}): the worker would end before it has done anything`,
    );
  }
  return issues;
}
