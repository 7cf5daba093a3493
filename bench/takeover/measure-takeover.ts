import { createChildren } from "../../scripts/stage/children.ts";
import { findServices, prepareGround } from "../../scripts/stage/ground.ts";
import type { Screen } from "../../scripts/stage/screen.ts";
import { readLedger } from "./board.ts";
import { countConsumers } from "./consumers.ts";
import { measureCrashes } from "./crashes.ts";
import { createCrew } from "./crew.ts";
import { detailLines, summary } from "./figures.ts";
import { measureFreezes } from "./freezes.ts";
import type { TakeoverOptions } from "./options.ts";
import type { Stage } from "./stage.ts";

/**
 * Runs the measurement from finding the servers to clearing everything away.
 *
 * @returns true where all jobs were taken over and each has had one effect
 */
export async function measureTakeover(
  options: TakeoverOptions,
  screen: Screen,
  stop: AbortController,
): Promise<boolean> {
  const { signal } = stop;
  const { kills, freezes, leaseMs } = options;
  await using services = await findServices(screen, signal);
  await using ground = await prepareGround(services, {
    name: "takeover",
    queues: ["takeover"],
    shownQueues: ["takeover"],
    tables: [new URL("schema.sql", import.meta.url)],
  });
  await using children = createChildren((failure) => stop.abort(failure));
  const crew = createCrew(children, ground, leaseMs, signal);
  await using consumers = await countConsumers(ground);
  const rounds = { pool: ground.pool, consumers, leaseMs, signal, ids: [] };
  const stage: Stage = { crew, rounds, screen, nextRound: 1 };
  crew.startRelay();

  const heldKills = Math.ceil(kills / 2);
  screen.heading(`Killed workers, deliveries held (${heldKills})`);
  const held = await measureCrashes(stage, "held", heldKills);
  screen.heading(`Killed workers, jobs without deliveries (${kills - heldKills})`);
  const leased = await measureCrashes(stage, "leased", kills - heldKills);
  screen.heading(`Frozen workers, lease ${leaseMs / 1_000} s (${freezes})`);
  const frozen = await measureFreezes(stage, freezes);

  const crashed = [...held, ...leased];
  const ledger = await readLedger(ground.pool, rounds.ids);
  screen.heading("Time until the slowest job of a dead worker started elsewhere");
  for (const line of detailLines("crash", crashed, "ms")) screen.line(line);
  for (const line of detailLines("frozen", frozen, "s")) screen.line(line);
  screen.line(
    `  ${ledger.jobs} jobs, ${ledger.lost} lost, ${ledger.doubled} doubled; ${ledger.refused} late effects refused`,
  );
  screen.line();
  screen.line(summary(crashed, frozen));
  return ledger.lost === 0 && ledger.doubled === 0;
}
