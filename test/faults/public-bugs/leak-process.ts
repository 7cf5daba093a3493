/**
 * A worker whose process tells what it holds on to; run with --expose-gc. Its options come as JSON.
 * It prints "started", and at the line "measure" one line of JSON, a {@link Holdings}.
 */

import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { queryObjects } from "node:v8";
import { silentLogger } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { noop, noopInTransaction } from "../../public-bugs/jobs.ts";
import type { WorkerProcessOptions } from "../../public-bugs/worker-process.ts";

/** What is left when no job runs and garbage was collected. */
export interface Holdings {
  /** Jobs that this process has run. */
  readonly jobs: number;
  /** Signals of ended jobs that somebody still holds. */
  readonly signals: number;
  /** Objects on the heap, by kind; functions are all closures, such as listeners. */
  readonly objects: Readonly<Record<"signals" | "controllers" | "timers" | "functions", number>>;
  readonly warnings: readonly string[];
  readonly heapBytes: number;
}

const options = JSON.parse(process.argv[2] ?? "{}") as WorkerProcessOptions;
const collectGarbage = (globalThis as { gc?: () => void }).gc;
if (collectGarbage === undefined) throw new Error("Run this process with --expose-gc.");
const pool = new Pool({ connectionString: options.databaseUrl, max: 25 });
const stop = new AbortController();
const warnings: string[] = [];
process.on("warning", (warning) => {
  // That of queryObjects below.
  if (warning.name !== "ExperimentalWarning") warnings.push(String(warning));
});

const { constructor: Timeout } = setTimeout(() => undefined, 0);
const countOf = (kind: Function): number => queryObjects(kind, { format: "count" });

let jobs = 0;
let signals = 0;
const collected = new FinalizationRegistry<undefined>(() => (signals -= 1));

/** What handlers do with their signal: pass it on, and never take their listeners off. */
function keepAnEyeOn(signal: AbortSignal): void {
  jobs += 1;
  signals += 1;
  collected.register(signal, undefined);
  signal.addEventListener("abort", () => console.log("aborted", signal.aborted));
}

const worker = createWorker<PoolClient>({
  ...options,
  database: pgDatabase(pool),
  logger: silentLogger,
});
worker.handle(noop, (job) => keepAnEyeOn(job.signal));
worker.handleInTransaction(noopInTransaction, (job) => keepAnEyeOn(job.signal));

async function measure(): Promise<Holdings> {
  while (worker.status().queues.some(({ running, waiting }) => running + waiting > 0)) {
    await delay(10);
  }
  // Finalizers run between garbage collections, in turns of the event loop of their own.
  for (let round = 0; round < 20; round += 1) {
    collectGarbage?.();
    await delay(20);
  }
  return {
    jobs,
    signals,
    objects: {
      signals: countOf(AbortSignal),
      controllers: countOf(AbortController),
      timers: countOf(Timeout),
      functions: countOf(Function),
    },
    warnings,
    heapBytes: process.memoryUsage().heapUsed,
  };
}

createInterface({ input: process.stdin }).on("line", (line) => {
  if (line === "measure") void measure().then((held) => console.log(JSON.stringify(held)));
});
const finished = worker.run({ signal: stop.signal });
while (!worker.status().queues.some(({ consumer }) => consumer === "consuming")) await delay(10);
console.log("started");
await finished;
