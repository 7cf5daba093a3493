/** Whether a rate is kept and used, and what many keys with work cost. */

import { fullestWindow, median } from "./figures.ts";
import { type Item, Line } from "./line.ts";
import { atLeast, atMost, bounded, type Figure, type Measurement, told } from "./measurement.ts";
import { cpuPerThousand } from "./processor.ts";
import type { Stage } from "./stage.ts";

const limit = 200;
const burst = 20;
const costJobs = 40_000;

/** Starts of a queue with a rate, which are claims by its workers, in every window of time. */
async function keptRate(stage: Stage): Promise<readonly Figure[]> {
  const seconds = stage.quick ? 20 : 60;
  const jobs = limit * seconds + burst;
  await using line = await Line.start(stage, {
    settings: { rate: { limit, burst } },
    workers: 2,
    concurrency: 50,
    logsAll: true,
  });
  await line.enqueue(Array.from({ length: jobs }, (_, n): Item => ({ payload: { n, ms: 5 } })));
  await line.ended(jobs);
  const starts = (await line.runs()).map(({ startUs }) => startUs);
  const passedUs = (starts.at(-1) ?? 0) - (starts[0] ?? 0);
  const used = (starts.length - 1) / ((passedUs / 1_000_000) * limit);
  const perUs = limit / 1_000_000;
  const most = fullestWindow(await line.claimsUs(), perUs);
  stage.screen.event(`${limit}/s over ${(passedUs / 1_000_000).toFixed(1)} s`);
  return [
    told("rate over", passedUs / 1_000_000, " s"),
    bounded("fullest window above the rate", most, burst, ` of a burst of ${burst}`),
    // A worker that gets no processor between a claim and the handler's call starts late.
    told("the same by the handlers", fullestWindow(starts, perUs), ""),
    atLeast("used", used, 0.97, ""),
  ];
}

/** CPU of the relay and PostgreSQL for a thousand jobs of so many keys with work. */
async function costOf(stage: Stage, keys: number): Promise<number | undefined> {
  await using line = await Line.start(stage, {
    // Limits that are looked at and not reached.
    settings: { keys: { concurrency: 10_000, rate: { limit: 1_000_000 } } },
    concurrency: 200,
    logsAll: false,
  });
  const items = Array.from({ length: costJobs }, (_, n): Item => ({
    payload: { n },
    options: { concurrencyKey: `tenant${n % keys}` },
  }));
  let before = await line.cpu();
  await line.enqueue(items, async () => {
    before = await line.cpu();
  });
  await line.ended(costJobs);
  const { relay, postgres } = cpuPerThousand(before, await line.cpu(), costJobs);
  return relay === undefined || postgres === undefined ? undefined : relay + postgres;
}

async function keyCost(stage: Stage): Promise<readonly Figure[]> {
  const few: number[] = [];
  const many: number[] = [];
  for (let round = 0; round < (stage.quick ? 1 : 3); round += 1) {
    few.push(...[await costOf(stage, 10)].flatMap((value) => value ?? []));
    many.push(...[await costOf(stage, 10_000)].flatMap((value) => value ?? []));
  }
  if (few.length === 0) return [told("CPU of 10,000 keys / of 10 keys", undefined, "")];
  return [
    told("CPU relay and postgres, 10 keys", median(few), " s/1000"),
    told("CPU relay and postgres, 10,000 keys", median(many), " s/1000"),
    atMost("CPU of 10,000 keys / of 10 keys", median(many) / median(few), 2, ""),
  ];
}

/** See the head of the file. */
export const rate: Measurement = {
  name: "rate",
  title: `a limit of ${limit} starts a second, and the cost of 10,000 keys with work`,
  measure: async (stage) => ({ figures: [...(await keptRate(stage)), ...(await keyCost(stage))] }),
};
