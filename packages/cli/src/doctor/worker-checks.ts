/** What the table of workers says about those that are alive, and about what dead ones left behind. */

import { formatDuration } from "../duration.ts";
import { type Finding, fine, notice, problem } from "./finding.ts";
import { type Ask, times } from "./pipeline-checks.ts";

/** An event loop that is blocked for so long, in milliseconds, holds up the jobs beside it. */
const blockedLimitMs = 30_000;
/** Workers heed a request within a second; after so long, in milliseconds, they will not. */
const heedLimitMs = 60_000;
/** A drain that takes longer, in milliseconds, may have been forgotten. */
const drainNoticeMs = 3_600_000;

type Row = Readonly<Record<string, string | null>>;

/** The workers that are alive, by the database's clock. */
export type LivingWorkers = readonly Row[];

/** How long a worker holds the deliveries of its queues. */
export interface DeliveryHold {
  readonly worker: string;
  readonly queues: readonly string[];
  readonly holdMs: number;
}

const queuesOf = (row: Row): string[] => JSON.parse(row["queues"] ?? "[]") as string[];
const nameOf = (row: Row): string => `${row["name"] ?? ""} ${(row["id"] ?? "").slice(0, 8)}`;
const isDraining = (row: Row): boolean => row["state"] === "draining" || row["request"] !== null;
const listed = (names: Iterable<string>): string => [...new Set(names)].sort().join(", ");

/** Queues that nobody takes jobs from. */
function unserved(rows: readonly Row[], known: readonly string[]): Finding[] {
  const consumed = new Set(rows.flatMap(queuesOf));
  const served = new Set(rows.filter((row) => !isDraining(row)).flatMap(queuesOf));
  return known
    .filter((queue) => !served.has(queue))
    .map((queue) =>
      consumed.has(queue)
        ? problem(
            "workers",
            `queue ${queue}: every worker that consumes it drains`,
            "start a worker that lists it in queues, or restart one: waybill workers restart",
          )
        : problem(
            "workers",
            `queue ${queue}: no worker that is alive consumes it`,
            "start a worker that lists it in queues",
          ),
    );
}

function blockedLoops(rows: readonly Row[]): Finding[] {
  return rows
    .filter((row) => row["blocked"] !== null)
    .map((row) => {
      const by = row["blocker"] ?? null;
      const ms = Number(row["blocked"]);
      const message = `${nameOf(row)}: its event loop has not turned for ${formatDuration(ms)}, blocked by ${by ?? "something unknown"}; its other jobs wait`;
      const remedy = `give ${by ?? "the handler"} isolation: "thread", or let it await now and then`;
      return ms < blockedLimitMs
        ? notice("event loop", message, remedy)
        : problem("event loop", message, remedy);
    });
}

function slowDrains(rows: readonly Row[]): Finding[] {
  return rows.flatMap((row) => {
    const requestedMs = row["requested"] === null ? 0 : Number(row["requested"]);
    const by = `since ${row["requester"] ?? "somebody"} asked ${formatDuration(requestedMs)} ago`;
    if (row["state"] === "running" && requestedMs > heedLimitMs) {
      return [
        problem(
          "drains",
          `${nameOf(row)} has not begun to drain ${by}`,
          "look at its log: it asks the database several times a second; end the process where it is frozen",
        ),
      ];
    }
    if (requestedMs <= drainNoticeMs) return [];
    const running = Number(row["running"]);
    return [
      notice(
        "drains",
        running === 0
          ? `${nameOf(row)} is drained and idle ${by}`
          : `${nameOf(row)} drains ${by} and still runs ${times(running, "job")}`,
        running === 0
          ? `end its process, or waybill workers restart ${(row["id"] ?? "").slice(0, 8)}`
          : "wait, or waybill jobs list --state running and cancel what need not end",
      ),
    ];
  });
}

function versionSkew(rows: readonly Row[]): Finding[] {
  const versions = new Map<string, number>();
  for (const row of rows) {
    const version = row["version"] ?? "";
    versions.set(version, (versions.get(version) ?? 0) + 1);
  }
  if (versions.size < 2) return [];
  const counted = [...versions].map(([version, count]) => `${version} (${times(count, "worker")})`);
  return [
    notice(
      "versions",
      `workers run several versions of the packages: ${counted.join(", ")}`,
      "expected during a deploy; afterwards upgrade the others",
    ),
  ];
}

export const readLivingWorkers = (ask: Ask): Promise<LivingWorkers> => ask("check_workers");

/**
 * Whether there are workers enough, and what may be wrong with them.
 *
 * @param paused queues that need no worker
 */
export async function checkWorkers(
  ask: Ask,
  rows: LivingWorkers,
  paused: ReadonlySet<string>,
): Promise<Finding[]> {
  if (rows.length === 0) {
    return [
      problem(
        "workers",
        "no worker is alive, so no job is run",
        "start one: waybill worker <module>",
      ),
    ];
  }
  const drains = rows.filter(isDraining).length;
  const words = drains === 0 ? "alive" : `alive, ${drains} of them draining`;
  const known = (await ask("list_known_queues"))
    .map((row) => row["queue"] ?? "")
    .filter((queue) => !paused.has(queue));
  return [
    fine("workers", `${rows.length} ${words}, on ${listed(rows.flatMap(queuesOf))}`),
    ...unserved(rows, known),
    ...blockedLoops(rows),
    ...slowDrains(rows),
    ...versionSkew(rows),
  ];
}

/** How long workers hold deliveries, for the comparison with the broker's limit. */
export function holdsOf(rows: LivingWorkers): readonly DeliveryHold[] {
  return rows.flatMap((row) =>
    row["hold"] === null
      ? []
      : [{ worker: nameOf(row), queues: queuesOf(row), holdMs: Number(row["hold"]) }],
  );
}

/** Leases of running jobs whose owner is dead: the relay's sweep dispatches such jobs again. */
export async function checkLeases(ask: Ask): Promise<Finding[]> {
  const rows = await ask("check_leases");
  const total = rows.reduce((sum, row) => sum + Number(row["count"]), 0);
  const findings = rows
    .filter((row) => Number(row["orphans"]) > 0)
    .map((row) =>
      problem(
        "leases",
        `queue ${row["queue"] ?? ""}: ${times(Number(row["orphans"]), "lease")} of dead workers, the oldest for ${formatDuration(Number(row["age"]))}, for example job ${row["example"] ?? ""}`,
        "the relay's sweep dispatches such jobs again; look at its log, or start one: waybill relay",
      ),
    );
  if (findings.length > 0) return findings;
  return [fine("leases", `${times(total, "running job")} held by a lease alone, no owner is dead`)];
}

/** Running jobs that nobody works on. */
export async function checkStaleJobs(ask: Ask): Promise<Finding[]> {
  const rows = await ask("check_stale_jobs");
  if (rows.length === 0) return [fine("running jobs", "none has lost its worker")];
  return rows.map((row) =>
    problem(
      "running jobs",
      `queue ${row["queue"] ?? ""}: ${times(Number(row["count"]), "job")} whose worker is dead, the oldest for ${formatDuration(Number(row["age"]))}, for example ${row["example"] ?? ""}`,
      "a worker takes them over when their message comes back, or the relay dispatches them again: see that both run",
    ),
  );
}
