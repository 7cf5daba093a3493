import type { ContentToCopy } from "testcontainers/build/types.js";

import { containerServer } from "./container-server.ts";
import type { DockerEngine } from "./docker-engine.ts";
import { freePort } from "./free-port.ts";
import type { PrivateRabbitmq, PrivateRabbitmqOptions } from "./private-server.ts";
import { managementAnswers, speaksAmqp } from "./rabbitmq-answers.ts";
import { rabbitmqConfig, rabbitmqPlugins } from "./server-settings.ts";

/** Image of containerised RabbitMQ servers; WAYBILL_TEST_RABBITMQ_IMAGE, rabbitmq:4.3-management by default. */
export function rabbitmqImage(): string {
  return process.env["WAYBILL_TEST_RABBITMQ_IMAGE"] || "rabbitmq:4.3-management";
}

/** A configuration file, readable by the server whoever it runs as. */
function file(target: string, content: string): ContentToCopy {
  return { target, content, mode: 0o644 };
}

/** Starts a RabbitMQ of rabbitmqImage() in a container. */
export async function startContainerRabbitmq(
  engine: DockerEngine,
  options: PrivateRabbitmqOptions = {},
): Promise<PrivateRabbitmq> {
  const { GenericContainer, Wait } = engine.testcontainers;
  const port = options.port ?? (await freePort());
  const managementPort = await freePort();
  const { server, host, execute } = await containerServer(engine, {
    name: `RabbitMQ (${rabbitmqImage()})`,
    port,
    url: (at) => `amqp://guest:guest@${at}:${port}`,
    container: () =>
      new GenericContainer(rabbitmqImage())
        // The node's name, and with it its data directory, must outlive a restart.
        .withHostname("waybill-rabbitmq")
        .withEnvironment({ RABBITMQ_DEFAULT_USER: "guest", RABBITMQ_DEFAULT_PASS: "guest" })
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
        .withWaitStrategy(Wait.forListeningPorts()),
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
