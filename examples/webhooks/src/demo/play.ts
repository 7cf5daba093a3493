import { createJobs, pgDatabase } from "@waybill/postgres";
import type { Cast } from "./cast.ts";
import { planDeliveries, readExamples } from "./deliveries.ts";
import type { Ground } from "../../../../scripts/stage/ground.ts";
import { readLedger } from "./ledger.ts";
import type { DemoOptions } from "./options.ts";
import type { Outcome } from "./report.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import { createSender } from "./sender.ts";
import type { Kill } from "./takeover.ts";
import { watchUntilEnd } from "./watch.ts";

/**
 * Sends all events, kills a worker after a third of them and the relay after two thirds, waits until
 * every job has ended, and counts.
 */
export async function play(
  options: DemoOptions,
  ground: Ground,
  cast: Cast,
  screen: Screen,
  stop: AbortSignal,
): Promise<Outcome> {
  const examples = readExamples();
  const kinds = new Set(examples.map(({ event }) => event)).size;
  const plan = planDeliveries(examples, options.events, options.seed);
  screen.event(
    `${plan.length} webhooks to send, made of ${examples.length} payloads of ${kinds} kinds`,
  );

  // Whatever fails ends the rest.
  const over = new AbortController();
  const signal = AbortSignal.any([stop, over.signal]);
  const sender = createSender(cast.serviceUrl, plan, ground.pool, signal);
  const jobs = createJobs({ database: pgDatabase(ground.pool) });

  async function sendAndKill(): Promise<readonly Kill[]> {
    await sender.sendUntil(1 / 3);
    const [worker] = await Promise.all([cast.killWorker(signal), sender.sendUntil(2 / 3)]);
    const [relay] = await Promise.all([cast.killRelay(signal), sender.sendUntil(1)]);
    return [worker, relay];
  }
  const startedAt = performance.now();
  try {
    const [kills] = await Promise.all([sendAndKill(), watchUntilEnd(jobs, sender, screen, signal)]);
    const durationMs = performance.now() - startedAt;
    return { ledger: await readLedger(ground.pool), kills, durationMs };
  } finally {
    over.abort();
    screen.endProgress();
  }
}
