/** What the tests of public reports share. */

import type { Worker } from "@waybill/worker";
import { connect } from "amqplib";
import type { PoolClient } from "pg";
import { eventually, startProcess, type TestProcess } from "../support/index.ts";
import type { Line, Running } from "../support/line.ts";
import { queue, sentinel } from "./jobs.ts";
import type { WorkerProcessOptions } from "./worker-process.ts";

export { queue, sentinel, writeEffect } from "./jobs.ts";

/** Makes the ledger of effects; it has no unique key, so that doubles can be counted. */
export async function createLedger(line: Line): Promise<void> {
  await line.database.rows("create table effect (job_id uuid not null, attempt integer not null)");
}

/** Counts a job's effects. */
export async function effectsOf(line: Line, jobId: string): Promise<number> {
  return (await line.database.rows("select from effect where job_id = $1", [jobId])).length;
}

/** Waits until a worker consumes its queues. */
export async function consuming(running: Running<Worker<PoolClient>>): Promise<void> {
  await eventually(() => {
    const { queues } = running.it.status();
    return queues.length > 0 && queues.every(({ consumer }) => consumer === "consuming");
  });
}

/** Enqueues a job and waits for its state. */
export async function stateBecomes(line: Line, jobId: string, state: string): Promise<void> {
  await eventually(async () => expectState((await line.jobs.get(jobId)).state, state));
}

function expectState(found: string, wanted: string): void {
  if (found !== wanted) throw new Error(`The job is ${found}, not ${wanted}.`);
}

/** Runs a sentinel through the line: whatever was in the queue before it has been delivered by then. */
export async function sentinelRuns(line: Line): Promise<void> {
  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, sentinel, { n: 0 }));
  await stateBecomes(line, jobId, "succeeded");
}

/** Ready messages and consumers of a queue, by its full name without the prefix. */
export async function look(
  line: Line,
  name = queue,
): Promise<{ readonly ready: number; readonly consumers: number }> {
  const model = await connect(line.vhost.url);
  try {
    const channel = await model.createChannel();
    const found = await channel.checkQueue(`${line.vhost.prefix}.${name}`);
    return { ready: found.messageCount, consumers: found.consumerCount };
  } finally {
    await model.close();
  }
}

/**
 * Starts a worker as a process of its own, killed at the end of the test; resolves when it consumes.
 * What it runs is in `jobs.ts`.
 */
export async function startWorkerProcess(
  line: Line,
  options: Partial<WorkerProcessOptions> & { readonly name: string },
): Promise<TestProcess> {
  const child = await startProcess(new URL("worker-process.ts", import.meta.url), [
    JSON.stringify({
      databaseUrl: line.database.url,
      broker: { url: line.vhost.url, prefix: line.vhost.prefix },
      queues: { [queue]: { concurrency: 10 } },
      ...options,
    } satisfies WorkerProcessOptions),
  ]);
  await child.waitForLine("started");
  return child;
}

/** Lines of a worker process that tell of handlers that began. */
export function runsOf(child: TestProcess, jobId = ""): readonly string[] {
  return child.stdout.filter((line) => line.startsWith("run ") && line.includes(jobId));
}

/** Waits until a worker has kept its lease for so many times its length, by the database's clock. */
export async function leasesPass(
  line: Line,
  name: string,
  times: number,
  leaseMs = 1_000,
): Promise<void> {
  const beat = async (): Promise<number> => {
    const [row] = await line.database.rows<{ at: Date; alive: boolean }>(
      "select heartbeat_at as at, waybill.worker_alive(id) as alive from waybill.worker where name = $1",
      [name],
    );
    if (row?.alive !== true) throw new Error(`The worker "${name}" is not alive.`);
    return row.at.getTime();
  };
  const first = await beat();
  await eventually(async () => (await beat()) > first + times * leaseMs);
}
