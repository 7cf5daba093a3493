/** Kills relays and workers of a line at random, and starts others in their place. */

import { setTimeout as delay } from "node:timers/promises";
import { randomFrom } from "../../scripts/stage/chance.ts";
import type { Line } from "./line.ts";
import type { Stage } from "./stage.ts";

/** What is to be done to a line. */
export interface ChaosPlan {
  /** SIGKILLs at least. */
  readonly kills: number;
  /** Between two of them, in milliseconds: half to one and a half times. */
  readonly pauseMs: number;
  /** How long the leading relay is frozen once, in milliseconds; 0: not at all. */
  readonly freezeMs: number;
  readonly seed: number;
}

/** What was done. */
export interface ChaosCount {
  readonly relays: number;
  readonly workers: number;
  readonly freezes: number;
}

/** Resolves when all of it was done and as many processes as before are there. */
export async function wreak(stage: Stage, line: Line, plan: ChaosPlan): Promise<ChaosCount> {
  const { signal } = stage.stop;
  const random = randomFrom(plan.seed);
  const relays = line.relays.length;
  let killedRelays = 0;
  let killedWorkers = 0;
  let freezes = 0;
  for (let n = 1; n <= plan.kills; n += 1) {
    await delay(plan.pauseMs * (0.5 + random()), undefined, { signal });
    if (plan.freezeMs > 0 && n === Math.ceil(plan.kills / 2)) {
      const { child } = await line.leader();
      child.freeze();
      await delay(plan.freezeMs, undefined, { signal });
      child.thaw();
      freezes += 1;
    }
    // The one that leads as often as any: relays take turns at it.
    if (random() < 0.4) {
      const victim = line.relays[Math.floor(random() * relays)];
      if (victim === undefined) continue;
      line.kill(victim);
      line.startRelay();
      killedRelays += 1;
    } else {
      const { workers } = line;
      const victim = workers[Math.floor(random() * workers.length)];
      if (victim === undefined) continue;
      line.kill(victim);
      await line.startWorker();
      killedWorkers += 1;
    }
    const done = `${killedRelays} relays and ${killedWorkers} workers killed`;
    stage.screen.progress(done, n / plan.kills);
  }
  stage.screen.endProgress();
  return { relays: killedRelays, workers: killedWorkers, freezes };
}
