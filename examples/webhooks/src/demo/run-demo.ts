import type { Services } from "../../../../scripts/services/index.ts";
import { type Cast, startCast } from "./cast.ts";
import { createChildren, ProcessFailure } from "../../../../scripts/stage/children.ts";
import {
  findServices,
  type Ground,
  type GroundPlan,
  prepareGround,
} from "../../../../scripts/stage/ground.ts";
import { balances } from "./ledger.ts";
import type { DemoOptions } from "./options.ts";
import { play } from "./play.ts";
import { report, reportJson } from "./report.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";

const plan: GroundPlan = {
  name: "demo",
  queues: ["index", "deliver"],
  shownQueues: ["index", "deliver", "deliver.dlq"],
  tables: [new URL("../schema.sql", import.meta.url), new URL("schema.sql", import.meta.url)],
};

function showPlaces(screen: Screen, services: Services, ground: Ground): void {
  screen.event(`database ${new URL(ground.databaseUrl).pathname.slice(1)} made and migrated`);
  if (services.managementUrl === undefined) {
    screen.event("this broker has no management UI");
    return;
  }
  const user = new URL(ground.rabbitmqUrl).username || "guest";
  const login = user === "guest" ? "user guest, password guest" : `user ${user}`;
  screen.event(`RabbitMQ management UI (${login}): ${services.managementUrl}`);
  for (const page of ground.pages) screen.line(`           ${page}`);
}

/** Leaves all running until Ctrl-C. Writes to stderr: the last line on stdout is the summary. */
async function keep(ground: Ground, cast: Cast, signal: AbortSignal): Promise<void> {
  process.stderr.write(
    [
      "",
      "Still running, until Ctrl-C:",
      `  psql "${ground.databaseUrl}" -c "select state, count(*) from waybill.job group by state"`,
      ...ground.pages.map((page) => `  ${page}`),
      `  curl ${cast.serviceUrl}/webhooks -H "content-type: application/json" -H "x-github-event: ping" \\`,
      `    -H "x-github-delivery: $(uuidgen)" -d '{"zen":"Keep it logically awesome."}'`,
      "",
    ].join("\n"),
  );
  const stopped = Promise.withResolvers<void>();
  const stop = (): void => stopped.resolve();
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  await stopped.promise;
  if (signal.reason instanceof ProcessFailure) throw signal.reason;
}

/**
 * Runs the demo from finding the servers to clearing everything away.
 *
 * @returns true where the ledger balances
 * @throws the reason of `stop`, or whatever went wrong
 */
export async function runDemo(
  options: DemoOptions,
  screen: Screen,
  stop: AbortController,
): Promise<boolean> {
  const { signal } = stop;
  await using services = await findServices(screen, signal);
  await using ground = await prepareGround(services, plan);
  showPlaces(screen, services, ground);

  screen.heading("Processes");
  await using children = createChildren((failure) => stop.abort(failure));
  const cast = await startCast(children, ground, screen, options.seed, signal);

  screen.heading("Work");
  try {
    const outcome = await play(options, ground, cast, screen, signal);
    if (options.json) reportJson(options, services, ground, outcome);
    else report(screen, outcome);
    if (options.keep) await keep(ground, cast, signal);
    return balances(outcome.ledger);
  } catch (error) {
    if (!options.keep || signal.aborted) throw error;
    process.stderr.write(
      `demo: failed: ${error instanceof Error ? error.message : String(error)}\n`,
    );
    await keep(ground, cast, signal);
    return false;
  }
}
