/** Reports on workers that are stopped, as docs/reliability.md numbers them. */

import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { startLine } from "../support/line.ts";
import { held } from "./jobs.ts";
import {
  createLedger,
  effectsOf,
  leasesPass,
  runsOf,
  sentinelRuns,
  startWorkerProcess,
  stateBecomes,
} from "./support.ts";

test("A39: a job that outlasts several leases of a stopping worker keeps its lease to the end, runs once, and the process exits after it", async () => {
  await using line = await startLine();
  await createLedger(line);
  line.startRelay();
  await using stopping = await startWorkerProcess(line, {
    name: "stopping",
    leaseMs: 1_000,
    graceMs: 600_000,
  });
  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, held, {}));
  await stopping.waitForLine(`run held ${jobId}`);
  await using other = await startWorkerProcess(line, { name: "other", leaseMs: 1_000 });

  stopping.kill("SIGTERM");
  await stopping.waitForLine("consumer paused");
  await leasesPass(line, "stopping", 4);
  for (let n = 0; n < 10; n += 1) await sentinelRuns(line);
  expect(await line.jobs.get(jobId)).toMatchObject({ state: "running", worker: "stopping" });
  stopping.writeLine("go");

  expect(await stopping.exited).toEqual({ code: 0, signal: null });
  expect(await line.jobs.get(jobId)).toMatchObject({
    state: "succeeded",
    attempt: 1,
    crashes: 0,
    dispatch: 1,
    failures: [],
  });
  expect(runsOf(other, jobId)).toEqual([]);
  expect(runsOf(other)).toHaveLength(10);
  expect(await effectsOf(line, jobId)).toBe(1);
});

test("A40: a job that outlasts the grace of a stopping worker is handed back as no failure, and starts elsewhere while the lease would still run", async () => {
  await using line = await startLine();
  await createLedger(line);
  line.startRelay();
  const leaseMs = 600_000;
  await using stopping = await startWorkerProcess(line, {
    name: "stopping",
    leaseMs,
    graceMs: 100,
  });
  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, held, {}));
  const deaf = await line.transaction((tx) => line.outbox.enqueue(tx, held, { deaf: true }));
  await eventually(() => expect(runsOf(stopping)).toHaveLength(2));
  await using other = await startWorkerProcess(line, { name: "other", leaseMs });

  stopping.kill("SIGTERM");

  for (const id of [jobId, deaf.jobId]) {
    await other.waitForLine(`run held ${id} 1`);
    expect(await line.jobs.get(id)).toMatchObject({
      state: "running",
      worker: "other",
      attempt: 1,
      crashes: 0,
      failures: [],
    });
  }
  other.writeLine("go");
  await stateBecomes(line, jobId, "succeeded");
  await stateBecomes(line, deaf.jobId, "succeeded");
  expect(await effectsOf(line, jobId)).toBe(1);
  expect(await effectsOf(line, deaf.jobId)).toBe(1);
  expect(await line.database.rows("select from waybill.worker where name = 'stopping'")).toEqual(
    [],
  );
});
