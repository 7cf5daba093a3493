import { setTimeout as sleep } from "node:timers/promises";
import { bar } from "../../../../scripts/stage/screen.ts";
import { billing, paymentsApi } from "../jobs.ts";
import { tenants } from "./plan.ts";
import { breaker, type Stage } from "./stage.ts";

/** What is known of a tenant's jobs now. */
interface TenantSight {
  readonly tenant: string;
  readonly running: number;
  readonly done: number;
  /** Jobs that started within the last second. */
  readonly recent: number;
}

const everyMs = 200;

async function lookAtTenants({ ground }: Stage): Promise<ReadonlyMap<string, TenantSight>> {
  const found = await ground.pool.query<TenantSight>(
    `select
       a.tenant,
       (count(*) filter (where a.ended_at is null))::integer as running,
       (count(*) filter (where a.succeeded))::integer as done,
       (count(*) filter (where a.started_at > clock_timestamp() - interval '1 second'))::integer as recent
     from attempt as a
     group by a.tenant`,
  );
  return new Map(found.rows.map((row) => [row.tenant, row]));
}

async function breakerWords(stage: Stage): Promise<string> {
  const { state, probeInMs } = await breaker(stage);
  const { name } = paymentsApi;
  if (state === "closed") return `${name}: breaker closed`;
  if (state === "half_open") return `${name}: breaker HALF OPEN, one probe at a time`;
  const seconds = (Math.max(0, probeInMs ?? 0) / 1_000).toFixed(1);
  return `${name}: breaker OPEN, next probe in ${seconds} s`;
}

async function queueWords({ queues }: Stage): Promise<string> {
  const { pausedAt, pausedBy, pauseReason, waiting } = await queues.get(billing.name);
  if (pausedAt === null) return `${billing.name}: ${waiting} jobs wait`;
  const why = pauseReason === null ? "" : `: ${pauseReason}`;
  return `${billing.name}: ${waiting} jobs wait, PAUSED by ${pausedBy ?? "nobody"}${why}`;
}

async function look(stage: Stage): Promise<{ lines: readonly string[]; text: string }> {
  const [sights, broken, queue] = await Promise.all([
    lookAtTenants(stage),
    breakerWords(stage),
    queueWords(stage),
  ]);
  const starts = [...sights.values()].reduce((sum, { recent }) => sum + recent, 0);
  const rows = tenants.map(({ name, tier }) => {
    const { running = 0, done = 0, recent = 0 } = sights.get(name) ?? {};
    const total = stage.enqueued.get(name) ?? 0;
    const share = starts === 0 ? "" : `starts ${Math.round((100 * recent) / starts)} %`;
    return {
      line:
        `${name.padEnd(8)} ${(tier ?? "(no tier)").padEnd(10)} ${bar(total === 0 ? 0 : done / total)} ` +
        `${`${done}/${total}`.padStart(8)} ${`${running} run`.padStart(6)}  ${share}`,
      text: `${name} ${done}/${total}, ${running} run`,
    };
  });
  return {
    lines: [queue, broken, ...rows.map(({ line }) => line)],
    text: [...rows.map(({ text }) => text), queue, broken].join(" · "),
  };
}

/** Shows how the tenants, the breaker and the pause stand, until the signal. */
export async function showBoard(stage: Stage, over: AbortSignal): Promise<void> {
  const { screen } = stage;
  while (!over.aborted) {
    const { lines, text } = await look(stage);
    if (over.aborted) break;
    screen.panel(lines, text);
    await sleep(everyMs, undefined, { signal: over }).catch(() => undefined);
  }
  screen.endProgress();
}
