import { setTimeout as delay } from "node:timers/promises";
import { defineJob, defineQueue, type QueueSettings } from "@waybill/core";
import {
  createJobs,
  createOutbox,
  type EnqueueOptions,
  type Jobs,
  type Outbox,
} from "@waybill/postgres";
import { createRelay } from "@waybill/relay";
import type { Job } from "@waybill/worker";
import type { PoolClient } from "pg";
import { z } from "zod";
import { eventually, startProcess } from "../../support/index.ts";
import { testLogger } from "../../worker/support/app-parts.ts";
import {
  type App,
  type RunningWorker,
  startApp,
  type StartWorkerOptions,
} from "../../worker/support/start-app.ts";

/** The job of these tests, on the queue "work". */
export const flowJob = defineJob({
  name: "flow.job",
  queue: "work",
  payload: z.object({ n: z.number(), ms: z.number().optional() }),
  retry: { initialDelayMs: 10, maxDelayMs: 20, jitter: "none" },
});

/** A job as its handler gets it. */
export type FlowJob = Job<typeof flowJob, PoolClient>;

/** One start of a handler, by the monotonic clock. */
export interface Start {
  readonly id: string;
  readonly n: number;
  readonly key: string;
  readonly startedAtMs: number;
  endedAtMs: number;
}

/** An app whose queue "work" has settings, with a record of every start. */
export interface Flow extends AsyncDisposable {
  readonly app: App;
  readonly outbox: Outbox<PoolClient>;
  readonly jobs: Jobs<PoolClient>;
  /** Writes the queue's settings, as a worker does at its start. */
  declare(): Promise<void>;
  startRelay(): { stop(): Promise<void> };
  /** Starts a relay as a process that kills itself at a failpoint; resolves at its end. */
  killRelayAt(point: string, count?: number): Promise<void>;
  /** Runs one statement of the test. */
  sql(text: string, values?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>;
  startWorker(
    handler: (job: FlowJob) => unknown,
    options?: StartWorkerOptions,
  ): Promise<RunningWorker>;
  /** Enqueues jobs numbered from 0, each in a transaction of its own. */
  enqueue(
    count: number,
    optionsOf?: (n: number) => EnqueueOptions,
    payloadOf?: (n: number) => { readonly ms?: number },
  ): Promise<string[]>;
  /** Records a start, and its end when the record is disposed of. */
  note(job: FlowJob): Disposable;
  starts(): readonly Start[];
  /** The most starts of one group that were running at the same time. */
  mostAtOnce(groupOf: (start: Start) => string): number;
  /** Waits until all these jobs have succeeded. */
  ended(ids: readonly string[]): Promise<void>;
  leftovers(): Promise<{ readonly slots: number; readonly backlog: number }>;
}

/** Starts an app whose queue "work" has these settings. */
export async function startFlow(settings: QueueSettings): Promise<Flow> {
  const app = await startApp();
  const stack = new AsyncDisposableStack();
  stack.use(app);
  const outbox = createOutbox({ database: app.dataLayer });
  const queue = defineQueue({ name: "work", ...settings });
  const starts: Start[] = [];
  return {
    app,
    outbox,
    jobs: createJobs({ database: app.dataLayer }),
    async declare() {
      await app.database.rows("insert into waybill.queue (name, declared) values ('work', $1)", [
        JSON.stringify(queue.settings),
      ]);
    },
    startRelay() {
      const stop = new AbortController();
      const relay = createRelay({
        databaseUrl: app.database.url,
        broker: { url: app.vhost.url, prefix: app.vhost.prefix },
        logger: testLogger,
      });
      const finished = relay.run({ signal: stop.signal });
      finished.catch(() => undefined);
      const handle = {
        async stop() {
          stop.abort();
          await finished;
        },
      };
      stack.defer(() => handle.stop());
      return handle;
    },
    async killRelayAt(point, count = 1) {
      const relaySettings = {
        databaseUrl: app.database.url,
        broker: { url: app.vhost.url, prefix: app.vhost.prefix },
        leaseMs: 500,
      };
      const program = new URL("../../support/relay-process.ts", import.meta.url);
      const at = { point, count, signal: "SIGKILL" };
      const child = stack.use(
        await startProcess(program, [JSON.stringify(relaySettings), JSON.stringify(at)]),
      );
      const exit = await child.exited;
      if (exit.signal !== "SIGKILL") throw new Error(`the relay ended by ${exit.signal}`);
    },
    sql: (text, values = []) => app.database.rows(text, [...values]),
    startWorker: (handler, options = {}) =>
      app.startWorker(
        (worker) => {
          worker.handle(flowJob, async (job) => {
            const held = await handler(job);
            await delay(job.payload.ms ?? 2);
            if (typeof held === "object" && held !== null && Symbol.dispose in held) {
              (held as Disposable)[Symbol.dispose]();
            }
          });
        },
        { queues: { work: { concurrency: 10, define: queue } }, ...options },
      ),
    async enqueue(count, optionsOf = () => ({}), payloadOf = () => ({})) {
      const ids: string[] = [];
      for (let n = 0; n < count; n += 1) {
        const receipt = await app.dataLayer.transaction((tx) =>
          outbox.enqueue(tx, flowJob, { n, ...payloadOf(n) }, optionsOf(n)),
        );
        ids.push(receipt.jobId);
      }
      return ids;
    },
    note(job) {
      const start: Start = {
        id: job.id,
        n: job.payload.n,
        key: job.concurrencyKey ?? "",
        startedAtMs: performance.now(),
        endedAtMs: Infinity,
      };
      starts.push(start);
      return { [Symbol.dispose]: () => void (start.endedAtMs = performance.now()) };
    },
    starts: () => starts,
    mostAtOnce(groupOf) {
      let most = 0;
      for (const { startedAtMs, ...start } of starts) {
        const group = groupOf({ startedAtMs, ...start });
        const running = starts.filter(
          (other) =>
            groupOf(other) === group &&
            other.startedAtMs <= startedAtMs &&
            other.endedAtMs > startedAtMs,
        );
        most = Math.max(most, running.length);
      }
      return most;
    },
    async ended(ids) {
      await eventually(async () => {
        const rows = await app.database.rows<{ state: string; jobs: string }>(
          "select state, count(*) as jobs from waybill.inbox where id = any ($1) group by state",
          [ids],
        );
        const found = Object.fromEntries(rows.map(({ state, jobs }) => [state, Number(jobs)]));
        if (found["succeeded"] !== ids.length) throw new Error(`jobs are ${JSON.stringify(found)}`);
      });
    },
    async leftovers() {
      const [row] = await app.database.rows<{ slots: string; backlog: string }>(
        "select (select count(*) from waybill.slot) as slots, (select count(*) from waybill.backlog) as backlog",
      );
      return { slots: Number(row?.slots), backlog: Number(row?.backlog) };
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
