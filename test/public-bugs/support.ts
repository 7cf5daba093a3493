/** What the tests of public reports share. */

import { defineJob } from "@waybill/core";
import type { Worker } from "@waybill/worker";
import { connect } from "amqplib";
import type { PoolClient } from "pg";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import type { Line, Running } from "../support/line.ts";

/** The queue of all jobs here. */
export const queue = "work";

const payload = z.object({ n: z.int() });

/** A job that succeeds; it shows that the worker works, and that what came before it has been looked at. */
export const sentinel = defineJob({ name: "sentinel", queue, payload });

/** Makes the ledger of effects; it has no unique key, so that doubles can be counted. */
export async function createLedger(line: Line): Promise<void> {
  await line.database.rows("create table effect (job_id uuid not null, attempt integer not null)");
}

/** Writes one effect into the ledger. */
export async function writeEffect(
  tx: { query(text: string, values: unknown[]): Promise<unknown> },
  job: { readonly id: string; readonly attempt: number },
): Promise<void> {
  await tx.query("insert into effect values ($1, $2)", [job.id, job.attempt]);
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
