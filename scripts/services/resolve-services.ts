import { postgresImage, startContainerPostgres } from "./container-postgres.ts";
import { rabbitmqImage, startContainerRabbitmq } from "./container-rabbitmq.ts";
import { canInstallPackages, installPackages } from "./debian-packages.ts";
import { askDocker } from "./docker-engine.ts";
import { givenServices } from "./given-services.ts";
import { findPostgres, startLocalPostgres } from "./local-postgres.ts";
import { findRabbitmq, startLocalRabbitmq } from "./local-rabbitmq.ts";
import type { PrivatePostgres, PrivateRabbitmq } from "./private-server.ts";
import type { Services, ServicesSource } from "./services.ts";
import { remedy } from "./start-private.ts";

/** Options of resolveServices. */
export interface ResolveServicesOptions {
  /** Receives one line for the source that is taken, and one for each that is passed over. */
  readonly log: (line: string) => void;
  /** Takes this source or fails. @default WAYBILL_SERVICES, else the first that can be had */
  readonly prefer?: Exclude<ServicesSource, "installed"> | undefined;
  /** See PrivatePostgresOptions. @default true */
  readonly fsync?: boolean | undefined;
}

/** Starts both at once; if one cannot be had, ends the other. */
async function startBoth(
  startPostgres: () => Promise<PrivatePostgres>,
  startRabbitmq: () => Promise<PrivateRabbitmq>,
  source: ServicesSource,
  why: string,
): Promise<Services> {
  const [postgres, rabbitmq] = await Promise.allSettled([startPostgres(), startRabbitmq()]);
  if (postgres.status === "rejected" || rabbitmq.status === "rejected") {
    const errors: unknown[] = [];
    for (const result of [postgres, rabbitmq]) {
      if (result.status === "rejected") errors.push(result.reason);
      else await result.value.stop();
    }
    throw errors[0];
  }
  const stop = async (): Promise<void> => {
    await Promise.all([postgres.value.stop(), rabbitmq.value.stop()]);
  };
  return {
    databaseUrl: postgres.value.url,
    rabbitmqUrl: rabbitmq.value.url,
    managementUrl: rabbitmq.value.managementUrl,
    source,
    why,
    postgres: postgres.value,
    rabbitmq: rabbitmq.value,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** What was tried before this source: "no Docker engine is running here". */
type Passed = readonly string[];

async function fromDocker(fsync: boolean): Promise<Services | string> {
  const docker = await askDocker();
  if (docker.engine === undefined) return docker.reason;
  const { engine } = docker;
  try {
    return await startBoth(
      async () => await startContainerPostgres(engine, { fsync }),
      async () => await startContainerRabbitmq(engine),
      "docker",
      `${engine.description} answers: ${postgresImage()} and ${rabbitmqImage()} in containers`,
    );
  } catch (error) {
    const fact = error instanceof Error ? error.message : String(error);
    return `${engine.description} answers, but not with ${postgresImage()} and ${rabbitmqImage()} (${fact})`;
  }
}

async function fromInstalled(
  fsync: boolean,
  source: "local" | "installed",
): Promise<Services | string> {
  const postgres = findPostgres();
  const rabbitmq = findRabbitmq();
  if (postgres === undefined || rabbitmq === undefined) {
    const missing = [
      ...(postgres === undefined ? ["PostgreSQL"] : []),
      ...(rabbitmq === undefined ? ["RabbitMQ"] : []),
    ];
    return `${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} not installed`;
  }
  return await startBoth(
    async () => await startLocalPostgres(postgres, { fsync }),
    async () => await startLocalRabbitmq(rabbitmq, { fsync }),
    source,
    `private instances of the programs in ${postgres} and ${rabbitmq}`,
  );
}

function forcedSource(options: ResolveServicesOptions): ResolveServicesOptions["prefer"] {
  if (options.prefer !== undefined) return options.prefer;
  const forced = process.env["WAYBILL_SERVICES"];
  if (forced === undefined || forced === "") return undefined;
  if (forced === "url" || forced === "docker" || forced === "local") return forced;
  throw new Error(
    `Cannot find services: WAYBILL_SERVICES is "${forced}". Set it to url, docker or local, or not at all.`,
  );
}

/**
 * Finds, starts or installs a PostgreSQL and a RabbitMQ: DATABASE_URL and RABBITMQ_URL where both are set, else
 * containers where a Docker engine answers, else private instances of the installed programs, else (as root on Debian)
 * programs that it installs. Ends with this process, however that ends, and leaves nothing behind.
 *
 * @throws Error that names all that was tried and the command to type
 */
export async function resolveServices(options: ResolveServicesOptions): Promise<Services> {
  const forced = forcedSource(options);
  const fsync = options.fsync ?? true;
  const passed: string[] = [];
  const startedAt = performance.now();

  const take = (services: Services): Services => {
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
    options.log(`services: ${services.source}: ${services.why} (${seconds} s)`);
    return services;
  };
  const attempt = async (
    source: NonNullable<ResolveServicesOptions["prefer"]>,
    find: () => Promise<Services | string>,
  ): Promise<Services | undefined> => {
    if (forced !== undefined && forced !== source) return undefined;
    const found = await find();
    if (typeof found !== "string") return take(found);
    passed.push(found);
    options.log(`services: not ${source}: ${found}`);
    return undefined;
  };

  const services =
    (await attempt("url", givenServices)) ??
    (await attempt("docker", async () => await fromDocker(fsync))) ??
    (await attempt("local", async () => await fromInstalled(fsync, "local")));
  if (services !== undefined) return services;
  if ((forced === undefined || forced === "local") && canInstallPackages()) {
    const packages = [
      ...(findPostgres() === undefined ? ["postgresql"] : []),
      ...(findRabbitmq() === undefined ? ["rabbitmq-server"] : []),
    ];
    options.log(`services: installing ${packages.join(" and ")} with apt-get`);
    await installPackages(packages);
    const installed = await fromInstalled(fsync, "installed");
    if (typeof installed !== "string") return take(installed);
    passed.push(`after apt-get, ${installed}`);
  }
  throw new Error(noServicesMessage(forced, passed));
}

function noServicesMessage(forced: ResolveServicesOptions["prefer"], passed: Passed): string {
  const facts = passed.join("; ");
  if (forced === "url") return `Cannot use the services of WAYBILL_SERVICES=url: ${facts}.`;
  if (forced === "docker") return `Cannot use Docker as WAYBILL_SERVICES=docker says: ${facts}.`;
  return `Cannot find PostgreSQL and RabbitMQ: ${facts}. Run: ${remedy()}`;
}
