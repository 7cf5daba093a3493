import { setTimeout as sleep } from "node:timers/promises";
import type { JobDefinition } from "@waybill/core";
import type {
  Database,
  Dependencies,
  DependencyRecord,
  EnqueueItem,
  Jobs,
  Outbox,
  Queues,
} from "@waybill/postgres";
import type { PoolClient } from "pg";
import type { Ground } from "../../../../scripts/stage/ground.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import { until } from "../../../../scripts/stage/until.ts";
import { paymentsApi } from "../jobs.ts";
import type { FlowOptions } from "./options.ts";
import type { PaymentsApi } from "./payments-api.ts";
import type { Plan } from "./plan.ts";

/** What the parts of the demo work with. */
export interface Stage {
  readonly options: FlowOptions;
  readonly plan: Plan;
  readonly ground: Ground;
  readonly screen: Screen;
  readonly signal: AbortSignal;
  readonly payments: PaymentsApi;
  readonly database: Database<PoolClient>;
  readonly outbox: Outbox<PoolClient>;
  readonly jobs: Jobs<PoolClient>;
  readonly queues: Queues<PoolClient>;
  readonly dependencies: Dependencies<PoolClient>;
  /** Jobs that were enqueued, by tenant. */
  readonly enqueued: Map<string, number>;
}

/** How long nothing of what is waited for may happen. */
const deadlineMs = 60_000;
/** Jobs of one statement. */
const itemsMax = 5_000;

/** Enqueues jobs, all of them in one transaction; resolves to their ids. */
export async function enqueue<J extends JobDefinition>(
  { database, outbox, enqueued }: Stage,
  job: J,
  items: readonly EnqueueItem<J>[],
): Promise<readonly string[]> {
  const ids = await database.transaction(async (tx) => {
    const made: string[] = [];
    for (let at = 0; at < items.length; at += itemsMax) {
      const receipts = await outbox.enqueueMany(tx, job, items.slice(at, at + itemsMax));
      made.push(...receipts.map(({ jobId }) => jobId));
    }
    return made;
  });
  for (const { options } of items) {
    const tenant = options?.concurrencyKey ?? "";
    enqueued.set(tenant, (enqueued.get(tenant) ?? 0) + 1);
  }
  return ids;
}

/** Waits until `check` gives a value, and looks every `intervalMs`. */
export async function wait<Value>(
  { signal }: Stage,
  what: string,
  check: () => Promise<Value | undefined>,
  intervalMs = 50,
): Promise<Value> {
  return await until(what, check, { deadlineMs, intervalMs, signal });
}

/** Waits until so many jobs of a type have succeeded. */
export async function succeeded(stage: Stage, type: string, atLeast: number): Promise<void> {
  await wait(stage, `${atLeast} jobs ${type} to succeed`, async () => {
    const found = await stage.ground.pool.query<{ jobs: number }>(
      "select count(*)::integer as jobs from attempt where type = $1 and succeeded",
      [type],
    );
    return (found.rows[0]?.jobs ?? 0) >= atLeast ? true : undefined;
  });
}

/** Waits until every job has ended. */
export async function allEnded(stage: Stage): Promise<void> {
  const openJobs = async (): Promise<number> => {
    const { queued, running, retry_waiting: waiting } = (await stage.jobs.counts()).total;
    return queued + running + waiting;
  };
  let last = await openJobs();
  while (last > 0) {
    const before = last;
    const look = async (): Promise<number | undefined> => {
      const now = await openJobs();
      return now < before ? now : undefined;
    };
    // A count of all jobs is worth the work of some jobs.
    last = await wait(stage, `any of the ${before} open jobs to end`, look, 200);
  }
}

/** The provider's breaker. */
export async function breaker({ dependencies }: Stage): Promise<DependencyRecord> {
  const found = (await dependencies.list()).find(({ name }) => name === paymentsApi.name);
  if (found === undefined) throw new Error(`No worker has declared ${paymentsApi.name}.`);
  return found;
}

/** Lets time pass. */
export async function pass({ signal }: Stage, ms: number): Promise<void> {
  await sleep(ms, undefined, { signal });
}
