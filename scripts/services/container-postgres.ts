import { containerServer } from "./container-server.ts";
import type { DockerEngine } from "./docker-engine.ts";
import { freePort } from "./free-port.ts";
import type { PrivatePostgres, PrivatePostgresOptions } from "./private-server.ts";
import { postgresSettings } from "./server-settings.ts";

/** Image of containerised PostgreSQL servers; WAYBILL_TEST_POSTGRES_IMAGE, postgres:18 by default. */
export function postgresImage(): string {
  return process.env["WAYBILL_TEST_POSTGRES_IMAGE"] || "postgres:18";
}

/** Starts a PostgreSQL of postgresImage() in a container. */
export async function startContainerPostgres(
  engine: DockerEngine,
  options: PrivatePostgresOptions = {},
): Promise<PrivatePostgres> {
  if (options.environment !== undefined) {
    throw new Error(
      "Cannot start a PostgreSQL in a container with this environment: it names files of this machine. Install PostgreSQL here, and leave WAYBILL_SERVICES unset.",
    );
  }
  const { GenericContainer, Wait } = engine.testcontainers;
  const port = options.port ?? (await freePort());
  const { server } = await containerServer(engine, {
    name: `PostgreSQL (${postgresImage()})`,
    port,
    url: (host) => `postgres://postgres:container-pa55word@${host}:${port}/postgres`,
    container: () =>
      new GenericContainer(postgresImage())
        .withEnvironment({ POSTGRES_USER: "postgres", POSTGRES_PASSWORD: "container-pa55word" })
        .withExposedPorts({ container: 5432, host: port })
        .withCommand(["postgres", ...postgresSettings(options)])
        .withWaitStrategy(Wait.forListeningPorts()),
    // The image's first start runs a server without TCP to set itself up, so only TCP tells.
    answers: async (_host, execute) => {
      await execute(["pg_isready", "--host=127.0.0.1", "--username=postgres"]);
      return true;
    },
  });
  return server;
}
