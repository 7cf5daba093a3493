import { startContainerPostgres } from "./container-postgres.ts";
import { startContainerRabbitmq } from "./container-rabbitmq.ts";
import { askDocker } from "./docker-engine.ts";
import { findPostgres, startLocalPostgres } from "./local-postgres.ts";
import { findRabbitmq, startLocalRabbitmq } from "./local-rabbitmq.ts";
import type {
  PrivatePostgres,
  PrivatePostgresOptions,
  PrivateRabbitmq,
  PrivateRabbitmqOptions,
} from "./private-server.ts";

/** What to type where nothing is installed and no engine answers. */
export function remedy(): string {
  if (process.platform === "darwin") return "brew install postgresql@18 rabbitmq";
  return "sudo apt-get install --no-install-recommends postgresql rabbitmq-server";
}

/** Whether containers come before installed programs; WAYBILL_SERVICES=docker says so. */
function wantsContainers(): boolean {
  return process.env["WAYBILL_SERVICES"] === "docker";
}

/**
 * Starts a PostgreSQL for the caller alone, to be killed, frozen and restarted: of the installed programs, or in a
 * container where there are none or WAYBILL_SERVICES is `docker`. Only installed programs take an environment.
 * @throws Error with the command to type where neither can be had
 */
export async function startPrivatePostgres(
  options: PrivatePostgresOptions = {},
): Promise<PrivatePostgres> {
  // An environment names files of this machine, which no container sees.
  const asContainer = wantsContainers() && options.environment === undefined;
  const binDirectory = asContainer ? undefined : findPostgres();
  if (binDirectory !== undefined) return await startLocalPostgres(binDirectory, options);
  const docker = await askDocker();
  if (docker.engine !== undefined) return await startContainerPostgres(docker.engine, options);
  throw new Error(
    `Cannot start a private PostgreSQL: none is installed, and ${docker.reason}. Run: ${remedy()}`,
  );
}

/**
 * Starts a RabbitMQ for the caller alone, to be killed, frozen and restarted: of the installed programs (about 6 s), or
 * in a container where there are none or WAYBILL_SERVICES is `docker`.
 * @throws Error with the command to type where neither can be had
 */
export async function startPrivateRabbitmq(
  options: PrivateRabbitmqOptions = {},
): Promise<PrivateRabbitmq> {
  const binDirectory = wantsContainers() ? undefined : findRabbitmq();
  if (binDirectory !== undefined) return await startLocalRabbitmq(binDirectory, options);
  const docker = await askDocker();
  if (docker.engine !== undefined) return await startContainerRabbitmq(docker.engine, options);
  throw new Error(
    `Cannot start a private RabbitMQ: none is installed, and ${docker.reason}. Run: ${remedy()}`,
  );
}
