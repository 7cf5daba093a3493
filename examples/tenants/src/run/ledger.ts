import { billing, chargeInvoice, paymentsApi } from "../jobs.ts";
import type { Attempt, Period } from "./checks.ts";
import type { Stage } from "./stage.ts";

/** A job as the database knows it in the end. */
export interface JobRow {
  readonly jobId: string;
  readonly state: string;
  readonly attempts: number;
  readonly enqueuedMs: number;
}

/** What holds for a tenant: its tier's settings, or those for every key. */
export interface TenantLimits {
  readonly tenant: string;
  readonly most: number;
  readonly weight: number;
}

/** The books of a run, and what they have to keep to, as they lie in the database. */
export interface Ledger {
  readonly attempts: readonly Attempt[];
  readonly jobs: readonly JobRow[];
  /** When the breaker was open: jobs that need the provider had to wait. */
  readonly outages: readonly Period[];
  readonly breakerState: string;
  readonly pauses: readonly Period[];
  /** The queue's own limit. */
  readonly most: number;
  readonly tenants: readonly TenantLimits[];
  readonly mostCharges: number;
}

const ms = (column: string): string => `(extract(epoch from ${column}) * 1000)::double precision`;

async function readAttempts({ ground }: Stage): Promise<readonly Attempt[]> {
  const { rows } = await ground.pool.query<
    Omit<Attempt, "endedMs" | "dispatchedMs"> & {
      readonly endedMs: number | null;
      readonly dispatchedMs: number | null;
    }
  >(
    `select
       a.job_id as "jobId", a.type, a.tenant, a.account, a.entry, a.succeeded is true as succeeded,
       ${ms("a.dispatched_at")} as "dispatchedMs", ${ms("a.started_at")} as "startedMs",
       ${ms("a.ended_at")} as "endedMs"
     from attempt as a
     order by a.started_at`,
  );
  return rows.map((row) => ({
    ...row,
    endedMs: row.endedMs ?? Infinity,
    // One without a slot was dispatched without one: nothing held it back.
    dispatchedMs: row.dispatchedMs ?? row.startedMs,
  }));
}

async function readJobs({ ground }: Stage): Promise<readonly JobRow[]> {
  const { rows } = await ground.pool.query<JobRow>(
    `select
       j.id as "jobId", j.state, j.attempt as attempts,
       ${ms("j.enqueued_at")} as "enqueuedMs"
     from waybill.job as j
     where j.queue = $1`,
    [billing.name],
  );
  return rows;
}

/** Times from one kind of change to the next of another kind. */
function periods(
  changes: readonly { readonly at: Date; readonly to: string }[],
  begin: string,
): readonly Period[] {
  return changes.flatMap(({ at, to }, n) =>
    to === begin
      ? [{ fromMs: at.getTime(), untilMs: changes[n + 1]?.at.getTime() ?? Infinity }]
      : [],
  );
}

/** Reads all of it. */
export async function readLedger(stage: Stage): Promise<Ledger> {
  const { queues, dependencies } = stage;
  const [attempts, jobs, queue, history] = await Promise.all([
    readAttempts(stage),
    readJobs(stage),
    queues.get(billing.name),
    dependencies.history(paymentsApi.name, { limit: 1_000 }),
  ]);
  const { settings, gates, audit } = queue;
  const { keys } = settings;
  const tenants = [...stage.enqueued.keys()].map((tenant) => {
    const tier = gates.find(({ kind, name }) => kind === "key" && name === tenant)?.tier;
    const own = tier === undefined || tier === null ? undefined : keys?.tiers?.[tier];
    return {
      tenant,
      most: own?.concurrency ?? keys?.concurrency ?? Infinity,
      weight: own?.weight ?? keys?.weight ?? 1,
    };
  });
  const states = history.toReversed().map(({ at, state }) => ({ at, to: state }));
  const acts = audit.map(({ at, action }) => ({ at, to: action }));
  return {
    attempts,
    jobs,
    outages: periods(states, "open"),
    breakerState: states.at(-1)?.to ?? "closed",
    pauses: periods(
      acts.filter(({ to }) => to === "pause" || to === "resume"),
      "pause",
    ),
    most: settings.concurrency ?? Infinity,
    tenants,
    mostCharges: settings.types?.[chargeInvoice.name]?.concurrency ?? Infinity,
  };
}
