import {
  createDependencies,
  createJobs,
  createOutbox,
  createQueues,
  pgDatabase,
} from "@waybill/postgres";
import type { PoolClient } from "pg";
import { createChildren } from "../../../../scripts/stage/children.ts";
import { findServices, prepareGround } from "../../../../scripts/stage/ground.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import { billing } from "../jobs.ts";
import { showBoard } from "./board.ts";
import { startCast } from "./cast.ts";
import { readLedger } from "./ledger.ts";
import { loseProvider } from "./lose-provider.ts";
import type { FlowOptions } from "./options.ts";
import { pauseQueue } from "./pause-queue.ts";
import { startPaymentsApi } from "./payments-api.ts";
import { planJobs, tenants } from "./plan.ts";
import { report, reportJson, reportOffences } from "./report.ts";
import { shareQueue } from "./share-queue.ts";
import type { Stage } from "./stage.ts";
import { holds, verdictOf } from "./verdict.ts";

const actor = "demo";

/** Puts each tenant into its tier, as an operator does when a customer pays for more. */
async function assignTiers({ queues, screen }: Stage): Promise<void> {
  for (const { name, tier } of tenants) {
    if (tier === null) continue;
    await queues.setTier({ queue: billing.name, key: name, tier });
    screen.event(`${name} is put into the tier ${tier}`);
  }
}

/** Plays all parts, one after the other; resolves to the jobs of the first. */
async function play(stage: Stage): Promise<ReadonlySet<string>> {
  const over = new AbortController();
  const acts = async (): Promise<ReadonlySet<string>> => {
    try {
      const ids = new Set(await shareQueue(stage));
      await loseProvider(stage);
      await pauseQueue(stage);
      return ids;
    } finally {
      over.abort();
    }
  };
  const shown = AbortSignal.any([over.signal, stage.signal]);
  const [ids] = await Promise.all([acts(), showBoard(stage, shown)]);
  return ids;
}

/**
 * Runs the demo from finding the servers to clearing everything away.
 *
 * @returns true where every limit, order and pause was kept to
 * @throws the reason of `stop`, or whatever went wrong
 */
export async function runFlow(
  options: FlowOptions,
  screen: Screen,
  stop: AbortController,
): Promise<boolean> {
  const { signal } = stop;
  await using services = await findServices(screen, signal);
  await using ground = await prepareGround(services, {
    name: "flow",
    queues: [billing.name],
    shownQueues: [billing.name],
    tables: [
      new URL("../schema.sql", import.meta.url),
      new URL("ledger-schema.sql", import.meta.url),
    ],
  });
  for (const page of ground.pages) screen.line(`           ${page}`);

  screen.heading("Processes");
  await using payments = await startPaymentsApi();
  await using children = createChildren((failure) => stop.abort(failure));
  await startCast(children, ground, screen, payments.url, signal);
  const database = pgDatabase<PoolClient>(ground.pool);
  const stage: Stage = {
    options,
    plan: planJobs(options.jobs),
    ground,
    screen,
    signal,
    payments,
    database,
    outbox: createOutbox({ database }),
    jobs: createJobs({ database }),
    queues: createQueues({ database, actor }),
    dependencies: createDependencies({ database, actor }),
    enqueued: new Map(),
  };
  await assignTiers(stage);

  const shareIds = await play(stage);
  const verdict = verdictOf(await readLedger(stage), shareIds, options.jobs);
  if (options.json) {
    reportOffences(screen, verdict);
    reportJson(options, services, verdict);
  } else {
    report(screen, verdict);
  }
  return holds(verdict);
}
