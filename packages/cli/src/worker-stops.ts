/** Watches workers that were asked to stop, until they have, or until the time is up. */

import { setTimeout as delay } from "node:timers/promises";
import type { StopRequest, WorkerRecord, Workers } from "@waybill/postgres";
import type { Client } from "pg";

/**
 * What became of a worker that was asked. `drained`: it takes no jobs and runs none. `ended`: it has
 * removed its presence. `died`: its lease is over, so others take over what it ran. `pending`: it
 * still runs jobs, or has not begun to drain.
 */
export type StopOutcome = "drained" | "ended" | "died" | "pending";

/** A worker that was asked, and what became of it. */
export interface StopResult extends WorkerRecord {
  readonly outcome: StopOutcome;
}

/** Time between two looks, in milliseconds. */
const lookMs = 300;

function outcomeOf(request: StopRequest, now: WorkerRecord | undefined): StopOutcome {
  if (now === undefined) return "ended";
  // Without its session lock it may only have lost its connection: then it comes back.
  if (!now.alive) return now.leaseLeftMs === 0 ? "died" : "pending";
  const idle = now.state === "draining" && now.running === 0;
  return idle && request === "drain" ? "drained" : "pending";
}

/**
 * Looks at the workers until none is pending.
 *
 * @param waitMs at most; 0 looks once
 * @param onStop is told of each as soon as it has stopped
 */
export async function watchStops(
  workers: Workers<Client>,
  asked: readonly WorkerRecord[],
  waitMs: number,
  onStop: (result: StopResult) => void,
): Promise<readonly StopResult[]> {
  const until = performance.now() + waitMs;
  const results = new Map<string, StopResult>();
  for (;;) {
    const known = await workers.list({ dead: true });
    for (const before of asked) {
      const told = results.get(before.id)?.outcome ?? "pending";
      if (told !== "pending") continue;
      const now = known.find(({ id }) => id === before.id);
      // One that is to restart anyway does not stay idle.
      const request = now?.stopRequested ?? before.stopRequested ?? "drain";
      const result = { ...(now ?? before), outcome: outcomeOf(request, now) };
      results.set(before.id, result);
      if (result.outcome !== "pending") onStop(result);
    }
    const all = [...results.values()];
    const leftMs = until - performance.now();
    if (leftMs <= 0 || all.every(({ outcome }) => outcome !== "pending")) return all;
    await delay(Math.min(lookMs, leftMs));
  }
}
