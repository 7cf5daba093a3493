/** What a governed queue costs where its limits are not reached, beside a pass-through one. */

import { setTimeout as delay } from "node:timers/promises";
import type { QueueSettings } from "@waybill/core";
import { nowUs } from "./clock.ts";
import { median } from "./figures.ts";
import { type Item, Line } from "./line.ts";
import { atLeast, atMost, type Figure, type Measurement, told } from "./measurement.ts";
import { type Cpu, cpuPerThousand, type Group } from "./processor.ts";
import type { Stage } from "./stage.ts";

const jobs = 40_000;
const warmUpJobs = 3_000;
const keys = 100;
const latencyRate = 100;

/** One kind of queue. */
interface Kind {
  readonly name: string;
  readonly settings: QueueSettings;
}

const kinds = {
  passThrough: { name: "pass-through", settings: {} },
  governed: { name: "governed", settings: { keys: {} } },
  shares: { name: "limit alone", settings: { concurrency: 1_000 } },
} satisfies Readonly<Record<string, Kind>>;

interface Sample {
  readonly rate: number;
  readonly cpu: Cpu;
  readonly latencyMs: number;
}

const itemsOf = (count: number): readonly Item[] =>
  Array.from({ length: count }, (_, n) => ({
    payload: { n },
    options: { concurrencyKey: `tenant${n % keys}` },
  }));

/** Jobs a second from the commit of them all to the end of the last. */
async function drain(line: Line): Promise<{ readonly rate: number; readonly cpu: Cpu }> {
  const { pool } = line.ground;
  await line.enqueue(itemsOf(warmUpJobs));
  await line.ended(warmUpJobs);
  // So that none begins in the middle of one run and not of another.
  await pool.query("checkpoint");
  let before = await line.cpu();
  let fromMs = 0;
  await line.enqueue(itemsOf(jobs), async () => {
    before = await line.cpu();
    const found = await pool.query<{ now: number }>(
      "select (extract(epoch from clock_timestamp()) * 1000)::double precision as now",
    );
    fromMs = found.rows[0]?.now ?? 0;
  });
  await line.ended(warmUpJobs + jobs);
  const cpu = cpuPerThousand(before, await line.cpu(), jobs);
  const found = await pool.query<{ last: number }>(
    "select (extract(epoch from max(finished_at)) * 1000)::double precision as last from waybill.inbox",
  );
  const toMs = found.rows[0]?.last ?? 0;
  return { rate: (jobs / (toMs - fromMs)) * 1_000, cpu };
}

/** From the call of enqueue to the start of the handler, in milliseconds, at a steady rate. */
async function latency(line: Line, seconds: number): Promise<number> {
  const begunMs = performance.now();
  const calls: Promise<void>[] = [];
  const count = latencyRate * seconds;
  for (let n = 0; n < count; n += 1) {
    const dueMs = begunMs + (n / latencyRate) * 1_000 - performance.now();
    if (dueMs > 0) await delay(dueMs);
    const options = { concurrencyKey: `tenant${n % keys}` };
    calls.push(line.enqueue([{ payload: { n, at: nowUs() }, options }]));
  }
  await Promise.all(calls);
  await line.ended(warmUpJobs + jobs + count);
  const runs = await line.runs();
  return median(runs.map(({ enqueuedUs, startUs }) => startUs - enqueuedUs)) / 1_000;
}

async function sample(stage: Stage, { settings }: Kind): Promise<Sample> {
  await using line = await Line.start(stage, { settings, concurrency: 200, logsAll: false });
  const drained = await drain(line);
  return { ...drained, latencyMs: await latency(line, stage.quick ? 5 : 10) };
}

const groups: readonly Group[] = ["relay", "worker", "postgres", "broker"];

function figuresOf({ name }: Kind, samples: readonly Sample[]): readonly Figure[] {
  const cpu = groups.map((group) => {
    const values = samples.flatMap((some) => some.cpu[group] ?? []);
    return told(`${name} CPU ${group}`, values.length > 0 ? median(values) : undefined, " s/1000");
  });
  return [
    told(name, median(samples.map(({ rate }) => rate)), "/s"),
    ...cpu,
    told(`${name} p50`, median(samples.map(({ latencyMs }) => latencyMs)), " ms"),
  ];
}

/** See the head of the file. */
export const throughput: Measurement = {
  name: "throughput",
  title: `${jobs} jobs without work, ${keys} keys, and latency at ${latencyRate} jobs/s`,
  async measure(stage) {
    const rounds = stage.quick ? 1 : 3;
    const all = { passThrough: [], governed: [], shares: [] } as Record<
      keyof typeof kinds,
      Sample[]
    >;
    for (let round = 1; round <= rounds; round += 1) {
      for (const kind of ["passThrough", "governed", "shares"] as const) {
        const some = await sample(stage, kinds[kind]);
        all[kind].push(some);
        stage.screen.event(
          `round ${round}, ${kinds[kind].name}: ${Math.round(some.rate)} jobs/s, p50 ${some.latencyMs.toFixed(2)} ms`,
        );
      }
    }
    const ratio = (kind: keyof typeof kinds): number =>
      median(all[kind].map(({ rate }, round) => rate / (all.passThrough[round]?.rate ?? Infinity)));
    const added = median(
      all.governed.map(
        ({ latencyMs }, round) => latencyMs - (all.passThrough[round]?.latencyMs ?? 0),
      ),
    );
    return {
      figures: [
        ...figuresOf(kinds.passThrough, all.passThrough),
        ...figuresOf(kinds.governed, all.governed),
        ...figuresOf(kinds.shares, all.shares),
        atLeast("governed / pass-through", ratio("governed"), 0.7, ""),
        atMost("added p50", added, 1, " ms"),
        atLeast("limit alone / pass-through", ratio("shares"), 0.95, ""),
      ],
    };
  },
};
