/** Does the faults of a schedule: those of a lane one after the other, the lanes side by side. */

import { setTimeout as delay } from "node:timers/promises";
import { brokerActs } from "./acts/broker.ts";
import { databaseActs } from "./acts/database.ts";
import { networkActs } from "./acts/network.ts";
import { processActs } from "./acts/processes.ts";
import type { Cast } from "./cast.ts";
import type { Chronicle } from "./chronicle.ts";
import type { Lane } from "./faults.ts";
import type { Field } from "./field.ts";
import type { FaultEvent } from "./schedule.ts";

/** What a fault works on. */
export interface Scene {
  readonly field: Field;
  readonly cast: Cast;
  readonly chronicle: Chronicle;
  readonly signal: AbortSignal;
}

/** Does one fault, and resolves when it is over, or when it goes on by itself. */
export type Act = (event: FaultEvent, scene: Scene) => Promise<void>;

const acts: Readonly<Record<Lane, Readonly<Record<string, Act>>>> = {
  processes: processActs,
  broker: brokerActs,
  database: databaseActs,
  network: networkActs,
};

async function runLane(
  events: readonly FaultEvent[],
  scene: Scene,
  onDone: () => void,
): Promise<void> {
  const startedAt = performance.now();
  for (const event of events) {
    const waitMs = event.atMs - (performance.now() - startedAt);
    if (waitMs > 0) await delay(waitMs, undefined, { signal: scene.signal });
    const act = acts[event.lane][event.fault];
    if (act === undefined) throw new Error(`There is no act for the fault "${event.fault}".`);
    await act(event, scene);
    scene.signal.throwIfAborted();
    onDone();
  }
}

/** Resolves when all of it was done and the servers are there again. */
export async function storm(
  schedule: readonly FaultEvent[],
  scene: Scene,
  onProgress: (done: number) => void,
): Promise<void> {
  let done = 0;
  const byLane = Map.groupBy(schedule, ({ lane }) => lane);
  await Promise.all(
    [...byLane.values()].map((events) => runLane(events, scene, () => onProgress((done += 1)))),
  );
}
