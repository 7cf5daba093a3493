/** Reports on what a worker holds on to, as docs/reliability.md numbers them. */

import { expect, test } from "vitest";
import { eventually, startProcess, type TestProcess } from "../../support/index.ts";
import { type Line, startLine } from "../../support/line.ts";
import { noop, noopInTransaction, queue } from "../../public-bugs/jobs.ts";
import type { Holdings } from "./leak-process.ts";
import type { WorkerProcessOptions } from "../../public-bugs/worker-process.ts";

const warmUp = 5_000;
const load = 30_000;
const batch = 1_000;

async function run(line: Line, count: number): Promise<void> {
  const before = (await line.jobs.counts()).total.succeeded;
  for (let n = 0; n < count; n += batch) {
    const rows = Array.from({ length: batch }, () => ({ payload: {} }));
    await line.transaction((tx) =>
      line.outbox.enqueueMany(tx, n % (5 * batch) === 0 ? noopInTransaction : noop, rows),
    );
  }
  await eventually(
    async () => {
      const [ended] = await line.database.rows(
        "select count(*)::int as n from waybill.inbox where state = 'succeeded'",
      );
      expect(ended).toEqual({ n: before + count });
    },
    { deadlineMs: 240_000, intervalMs: 500 },
  );
}

async function holdingsOf(worker: TestProcess): Promise<Holdings> {
  const seen = worker.stdout.length;
  worker.writeLine("measure");
  await eventually(() => worker.stdout.length > seen);
  return JSON.parse(worker.stdout.at(-1) ?? "") as Holdings;
}

test("A38, G4: thirty thousand jobs leave no signal, listener, timer or memory behind in the worker", async () => {
  await using line = await startLine();
  line.startRelay();
  await using worker = await startProcess(
    new URL("leak-process.ts", import.meta.url),
    [
      JSON.stringify({
        databaseUrl: line.database.url,
        broker: { url: line.vhost.url, prefix: line.vhost.prefix },
        queues: { [queue]: { concurrency: 20 } },
      } satisfies WorkerProcessOptions),
    ],
    {},
    { execArgv: ["--expose-gc"] },
  );
  await worker.waitForLine("started");

  await run(line, warmUp);
  const before = await holdingsOf(worker);
  await run(line, load);
  const after = await holdingsOf(worker);

  const grownBytes = after.heapBytes - before.heapBytes;
  const slope = (grownBytes / (after.jobs - before.jobs)) * 100_000;
  console.log({ before, after, bytesPer100kJobs: Math.round(slope) });
  expect(before.jobs).toBeGreaterThanOrEqual(warmUp);
  expect(after.jobs).toBeGreaterThanOrEqual(warmUp + load);
  // Idle connections of the pool remember the jobs that opened and released them, two at most each.
  expect(after.signals).toBeLessThan(load / 300);
  for (const kind of ["signals", "controllers", "timers", "functions"] as const) {
    expect(after.objects[kind] - before.objects[kind], kind).toBeLessThan(load / 10);
  }
  expect(after.warnings).toEqual([]);
  expect(grownBytes).toBeLessThan(5 * 1024 * 1024);
}, 600_000);
