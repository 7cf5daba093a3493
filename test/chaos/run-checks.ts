/** What the runs of handlers say about limits, order and takeovers. */

import type { Pool } from "pg";
import { startsAbove } from "../../bench/flow/figures.ts";
import type { Finding } from "./books.ts";
import type { Member } from "./cast.ts";
import type { Disturbance } from "./chronicle.ts";
import { limits } from "./jobs.ts";
import type { Run } from "./run-log.ts";

/** A process that wakes up goes on where it was, and learns a moment later that it has lost its jobs. */
const wakingMs = 2_000;
/** Clocks are read in whole milliseconds, by two processes. */
const blurMs = 2;

/** Whether the run began in a process that was frozen then, or had just woken up. */
function isZombie({ startMs }: Run, member: Member | undefined): boolean {
  return (
    member === undefined ||
    member.freezes.some(
      ({ fromMs, toMs }) => startMs >= fromMs && startMs <= (toMs ?? Infinity) + wakingMs,
    )
  );
}

/** When the run was over as far as limits go: a frozen process does nothing. Undefined: not known. */
function endOf({ startMs, endMs, outcome }: Run, member: Member): number | undefined {
  if (outcome === "lost") return undefined;
  const end = endMs ?? member.killedMs;
  const frozen = member.freezes.find(({ fromMs }) => fromMs >= startMs);
  return frozen === undefined || end === undefined ? end : Math.min(end, frozen.fromMs);
}

/** Starts in the limited queue that found a limit reached. */
export function brokenLimits(
  runs: readonly Run[],
  members: ReadonlyMap<string, Member>,
): readonly Finding[] {
  const counted = runs.flatMap((run) => {
    const member = members.get(run.worker);
    if (run.queue !== "limited" || member === undefined || isZombie(run, member)) return [];
    const endMs = endOf(run, member);
    if (endMs === undefined) return [];
    return {
      n: 0,
      type: "",
      key: run.key,
      enqueuedUs: 0,
      startUs: run.startMs * 1_000,
      endUs: endMs * 1_000,
      outcome: "succeeded" as const,
    };
  });
  const byKey = [...Map.groupBy(counted, ({ key }) => key).values()];
  const found = [
    { what: "starts above the limit of a queue", count: startsAbove(counted, limits.queue) },
    {
      what: "starts above the limit of a key",
      count: byKey.reduce((sum, some) => sum + startsAbove(some, limits.key), 0),
    },
  ];
  return found.flatMap(({ what, count }) =>
    count > 0 ? [{ what, fault: "broken" as const, count, jobs: [] }] : [],
  );
}

interface OrderedJob {
  readonly id: string;
  readonly key: string;
  readonly endedMs: number | null;
}

/** Starts of a job while an earlier one of its ordering key had not ended. */
export async function brokenOrder(
  pool: Pool,
  runs: readonly Run[],
  members: ReadonlyMap<string, Member>,
): Promise<readonly Finding[]> {
  const { rows } = await pool.query<OrderedJob>(
    `select b.job_id as id, b.key,
       (select extract(epoch from min(e.at)) * 1000 from ended as e where e.job_id = b.job_id)::double precision as "endedMs"
     from business as b where b.kind = 'ordered' order by b.key, b.key_seq`,
  );
  const before = new Map(
    rows.map(({ id, key }, n) => [id, rows[n - 1]?.key === key ? rows[n - 1] : undefined]),
  );
  const early = runs.filter((run) => {
    const previous = before.get(run.id);
    if (previous === undefined || isZombie(run, members.get(run.worker))) return false;
    return previous.endedMs === null || run.startMs < previous.endedMs - blurMs;
  });
  if (early.length === 0) return [];
  // With the one that had not ended.
  const jobs = [...new Set(early.flatMap(({ id }) => [before.get(id)?.id ?? id, id]))].slice(0, 6);
  return [
    {
      what: "starts before an earlier job of the key had ended",
      fault: "broken",
      count: early.length,
      jobs,
    },
  ];
}

/**
 * For each worker that was killed while handlers ran: milliseconds until the first of its jobs started elsewhere. Left
 * out where a server, a link of the workers or another worker was away meanwhile, or where the job had ended with the kill.
 */
export function takeoversOf(
  runs: readonly Run[],
  members: ReadonlyMap<string, Member>,
  disturbances: readonly Disturbance[],
): readonly number[] {
  const byJob = Map.groupBy(runs, ({ id, queue }) => `${id} ${queue}`);
  const byWorker = Map.groupBy(runs, ({ worker }) => worker);
  return [...members.values()].flatMap(({ name, killedMs }) => {
    if (killedMs === undefined) return [];
    const held = (byWorker.get(name) ?? []).filter(({ endMs }) => endMs === undefined);
    const starts = held.flatMap(
      ({ id, queue }) =>
        byJob
          .get(`${id} ${queue}`)
          ?.find(({ worker, startMs }) => worker !== name && startMs >= killedMs)?.startMs ?? [],
    );
    if (starts.length === 0) return [];
    const startMs = Math.min(...starts);
    const isDisturbed = disturbances.some(
      ({ fromMs, toMs }) => fromMs <= startMs && (toMs ?? Infinity) >= killedMs,
    );
    return isDisturbed ? [] : [startMs - killedMs];
  });
}

/**
 * For each time that the broker or the database was killed: milliseconds from when both answered again until the first
 * job that started after it was done.
 */
export function recoveriesOf(
  runs: readonly Run[],
  disturbances: readonly Disturbance[],
): readonly number[] {
  const outages = disturbances
    .filter(({ what }) => what === "broker" || what === "database")
    .map(({ fromMs, toMs }) => ({ fromMs, toMs: toMs ?? Infinity }));
  const done = runs.flatMap(({ startMs, endMs, outcome }) =>
    outcome === "done" && endMs !== undefined ? { startMs, endMs } : [],
  );
  return outages.flatMap(({ toMs }) => {
    const ends = done.filter(({ startMs }) => startMs >= toMs).map(({ endMs }) => endMs);
    const first = ends.reduce((least, endMs) => Math.min(least, endMs), Infinity);
    // The next outage came before it was over: that one's recovery is this one's as well.
    const isCut = outages.some((other) => other.fromMs < first && other.toMs > toMs);
    return first === Infinity || isCut ? [] : [first - toMs];
  });
}
