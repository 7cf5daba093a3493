import type { GenericContainer } from "testcontainers";

import { containerServer } from "./container-server.ts";
import type { DockerEngine } from "./docker-engine.ts";
import { freePort } from "./free-port.ts";
import type { PrivateRabbitmq, PrivateRabbitmqOptions } from "./private-server.ts";
import { managementAnswers, speaksAmqp } from "./rabbitmq-answers.ts";
import {
  RABBITMQ_SYNC_MS,
  RABBITMQ_SYNC_TABLES,
  rabbitmqConfig,
  rabbitmqPlugins,
} from "./server-settings.ts";

/** Image of containerised RabbitMQ servers; WAYBILL_TEST_RABBITMQ_IMAGE, rabbitmq:4.3-management by default. */
export function rabbitmqImage(): string {
  return process.env["WAYBILL_TEST_RABBITMQ_IMAGE"] || "rabbitmq:4.3-management";
}

type ContentToCopy = Parameters<GenericContainer["withCopyContentToContainer"]>[0][number];

/** A configuration file, readable by the server whoever it runs as. */
function file(target: string, content: string): ContentToCopy {
  return { target, content, mode: 0o644 };
}

/** Starts a RabbitMQ of rabbitmqImage() in a container. */
export async function startContainerRabbitmq(
  engine: DockerEngine,
  options: PrivateRabbitmqOptions = {},
): Promise<PrivateRabbitmq> {
  const { testcontainers } = engine;
  const port = options.port ?? (await freePort());
  const managementPort = await freePort();
  const { server, host, execute } = await containerServer(engine, {
    name: `RabbitMQ (${rabbitmqImage()})`,
    port,
    killDelayMs: RABBITMQ_SYNC_MS,
    url: (at) => `amqp://guest:guest@${at}:${port}`,
    container: () =>
      new testcontainers.GenericContainer(rabbitmqImage())
        // The node's name, and with it its data directory, must outlive a restart.
        .withHostname("waybill-rabbitmq")
        .withEnvironment({
          RABBITMQ_DEFAULT_USER: "guest",
          RABBITMQ_DEFAULT_PASS: "guest",
          RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: RABBITMQ_SYNC_TABLES,
        })
        .withExposedPorts(
          { container: 5672, host: port },
          { container: 15_672, host: managementPort },
        )
        .withCopyContentToContainer([
          file("/etc/rabbitmq/enabled_plugins", rabbitmqPlugins(options)),
          file("/etc/rabbitmq/conf.d/90-waybill.conf", rabbitmqConfig(options)),
          ...(options.advancedConfig === undefined
            ? []
            : [file("/etc/rabbitmq/advanced.config", options.advancedConfig)]),
        ])
        .withWaitStrategy(testcontainers.Wait.forListeningPorts()),
    answers: async (at) =>
      (await speaksAmqp(at, port)) && (await managementAnswers(`http://${at}:${managementPort}`)),
  });
  return Object.defineProperties(
    {
      managementUrl: `http://${host}:${managementPort}`,
      ctl: async (...args: string[]) => await execute(["rabbitmqctl", ...args]),
    },
    Object.getOwnPropertyDescriptors(server),
  ) as PrivateRabbitmq;
}
