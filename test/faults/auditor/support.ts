/** What the tests of the auditor share: a line with a gate before its handler, and a ledger of effects. */

import { defineJob } from "@waybill/core";
import { queueDepth } from "@waybill/rabbitmq";
import type { Worker, WorkerOptions } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect } from "vitest";
import { z } from "zod";
import { connected } from "../../rabbitmq/support.ts";
import { eventually } from "../../support/index.ts";
import { type Line, type LineOptions, type Running, startLine } from "../../support/line.ts";

/** A line whose jobs each leave one row of the table `effect`, which has no key: doubles can be counted. */
export interface Ledger extends AsyncDisposable {
  readonly line: Line;
  /** Starts a worker of the queue that runs nothing until the gate is open; resolves when it consumes. */
  startWorker(options?: Partial<WorkerOptions<PoolClient>>): Promise<Running<Worker<PoolClient>>>;
  /** Lets the handlers run. */
  openGate(): void;
  /** Enqueues jobs in one transaction; their ids. */
  enqueue(count: number): Promise<readonly string[]>;
  /** Waits until the broker has so many messages of the queue ready, at least. */
  ready(count: number, queue?: string): Promise<void>;
  /** Removes the messages that are ready, as an operator does. */
  purge(queue?: string): Promise<void>;
  /** Waits until each of these has ended, and has one effect. */
  endedOnce(ids: readonly string[], deadlineMs?: number): Promise<void>;
  /** Jobs that were dispatched again, of all queues. */
  dispatchedAgain(): Promise<number>;
}

const queue = "work";
export const audited = defineJob({
  name: "audited.job",
  queue,
  payload: z.object({ n: z.number() }),
});

/** Starts a ledger without relay and worker. */
export async function startLedger(options: LineOptions = {}): Promise<Ledger> {
  const line = await startLine(options);
  await line.database.rows("create table effect (queue text, id uuid)");
  const gate = Promise.withResolvers<void>();

  return {
    line,
    async startWorker(more) {
      const worker = line.startWorker(
        [queue],
        (it) =>
          it.handleInTransaction(audited, async (job, tx) => {
            await gate.promise;
            await tx.query("insert into effect values ($1, $2)", [queue, job.id]);
          }),
        more,
      );
      await eventually(() =>
        worker.it.status().queues.some(({ consumer }) => consumer === "consuming"),
      );
      return worker;
    },
    openGate: () => gate.resolve(),
    enqueue: (count) =>
      line.transaction(async (tx) => {
        const items = Array.from({ length: count }, (_, n) => ({ payload: { n } }));
        const jobs = await line.outbox.enqueueMany(tx, audited, items);
        return jobs.map(({ jobId }) => jobId);
      }),
    async ready(count, name = queue) {
      await using broker = await connected(line.vhost.url);
      await eventually(async () => {
        const depth = await queueDepth(broker, `${line.vhost.prefix}.${name}`);
        expect(depth?.messages).toBeGreaterThanOrEqual(count);
      });
    },
    async purge(name = queue) {
      const { management, name: vhost, prefix } = line.vhost;
      await management.request("DELETE", `/api/queues/${vhost}/${prefix}.${name}/contents`);
    },
    async endedOnce(ids, deadlineMs = 60_000) {
      await eventually(
        async () => {
          const [row] = await line.database.rows<{ ended: string }>(
            "select count(*) as ended from waybill.inbox where id = any ($1) and state = 'succeeded'",
            [ids],
          );
          expect(Number(row?.ended)).toBe(ids.length);
        },
        { deadlineMs, intervalMs: 100 },
      );
      const effects = await line.database.rows<{ id: string }>("select id from effect");
      expect(effects.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    },
    async dispatchedAgain() {
      const [row] = await line.database.rows<{ jobs: string }>(
        "select coalesce(sum(dispatched), 0) as jobs from waybill.audit",
      );
      return Number(row?.jobs);
    },
    async [Symbol.asyncDispose]() {
      gate.resolve();
      await line[Symbol.asyncDispose]();
    },
  };
}
