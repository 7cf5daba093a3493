/** Whether one tenant with much work delays the others, and whether weights are kept. */

import { percentile } from "../percentile.ts";
import { grouped } from "./figures.ts";
import { nowUs } from "./clock.ts";
import { type Item, Line, type LinePlan } from "./line.ts";
import { atMost, type Figure, type Measurement, told } from "./measurement.ts";
import { setTimeout as delay } from "node:timers/promises";
import type { Stage } from "./stage.ts";

const limit = 50;
const ms = 5;
const smallTenants = 100;
const smallJobs = 10;
const weights = { light: 1, middle: 2, heavy: 5 } as const;

const tenants: LinePlan = {
  settings: { concurrency: limit, keys: {} },
  workers: 2,
  concurrency: limit,
  logsAll: false,
};

/** Waits of the small tenants' jobs from the call of enqueue on, where a big one has so many already. */
async function waitsBeside(stage: Stage, bigJobs: number): Promise<readonly number[]> {
  await using line = await Line.start(stage, tenants);
  // Everything is warm in both systems.
  const warm = Array.from({ length: 2_000 }, (_, n): Item => ({ payload: { n, ms } }));
  await line.enqueue(warm);
  await line.ended(warm.length);
  if (bigJobs > 0) {
    const options = { concurrencyKey: "big" };
    await line.enqueue(
      Array.from({ length: bigJobs }, (_, n): Item => ({ payload: { n, ms }, options })),
    );
    await line.read();
    await delay(1_500, undefined, { signal: stage.stop.signal });
  }
  const at = nowUs();
  await line.enqueue(
    Array.from({ length: smallTenants * smallJobs }, (_, n): Item => ({
      payload: { n, ms, at },
      options: { concurrencyKey: `small${n % smallTenants}` },
    })),
  );
  await line.logged(smallTenants * smallJobs);
  const left = await line.leftovers();
  if (bigJobs > 0 && left.backlog === 0) throw new Error("The big tenant has no work left.");
  const runs = await line.runs();
  return runs.map(({ startUs, enqueuedUs }) => (startUs - enqueuedUs) / 1_000);
}

async function small(stage: Stage): Promise<readonly Figure[]> {
  const bigJobs = stage.quick ? 40_000 : 100_000;
  const alone: number[] = [];
  const beside: number[] = [];
  for (let round = 0; round < (stage.quick ? 1 : 3); round += 1) {
    alone.push(percentile(await waitsBeside(stage, 0), 99));
    beside.push(percentile(await waitsBeside(stage, bigJobs), 99));
    stage.screen.event(
      `p99 wait of the small ones: alone ${alone.at(-1)?.toFixed(0)} ms, beside ${bigJobs} jobs ${beside.at(-1)?.toFixed(0)} ms`,
    );
  }
  const [usual, crowded] = [percentile(alone, 50), percentile(beside, 50)];
  return [
    told("p99 wait alone", usual, " ms"),
    told(`p99 wait beside ${bigJobs} jobs`, crowded, " ms"),
    atMost("p99 wait beside / alone", crowded / usual, 3, ""),
  ];
}

async function shares(stage: Stage): Promise<readonly Figure[]> {
  const each = stage.quick ? 4_000 : 8_000;
  const names = ["light", "middle", "heavy"] as const;
  const tiers = Object.fromEntries(names.map((name) => [name, { weight: weights[name] }]));
  await using line = await Line.start(stage, {
    ...tenants,
    settings: { concurrency: limit, keys: { tiers } },
    logsAll: true,
  });
  await line.setTiers(names);
  const items = Array.from({ length: each * names.length }, (_, n): Item => {
    const name = names[n % names.length] ?? "light";
    return { payload: { n, ms }, options: { concurrencyKey: name } };
  });
  await line.enqueue(items);
  await line.ended(items.length);
  const runs = await line.runs();
  const byKey = grouped(runs, ({ key }) => key);
  // As long as all have jobs that wait, and after all of them were read.
  const toUs = Math.min(...[...byKey.values()].map((some) => some.at(-1)?.startUs ?? 0));
  const fromUs = runs[Math.floor(each / 8)]?.startUs ?? 0;
  const counts = names.map(
    (name) =>
      (byKey.get(name) ?? []).filter(({ startUs }) => startUs >= fromUs && startUs < toUs).length,
  );
  const all = counts.reduce((sum, count) => sum + count, 0);
  const errors = names.map((name, index) => {
    const wanted = weights[name] / 8;
    return Math.abs((counts[index] ?? 0) / all / wanted - 1);
  });
  stage.screen.event(`starts at weights 1 : 2 : 5: ${counts.join(" : ")}`);
  return [atMost("shares off their weights", Math.max(...errors), 0.05, "")];
}

/** See the head of the file. */
export const fairness: Measurement = {
  name: "fairness",
  title: `${smallTenants} tenants with ${smallJobs} jobs each beside one with much work, and weights`,
  measure: async (stage) => ({ figures: [...(await small(stage)), ...(await shares(stage))] }),
};
