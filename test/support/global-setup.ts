import type { TestProject } from "vitest/node";

import { resolveServices } from "../../scripts/services/index.ts";
import { createTemplate } from "./database-server.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** URL of a PostgreSQL user who may create databases; tests use databases of their own (createTestDatabase). */
    databaseUrl: string;
    /** Name of the database on it that createMigratedDatabase copies. */
    migratedDatabase: string;
    /** URL of a RabbitMQ administrator; tests use virtual hosts of their own (createTestVhost). */
    rabbitmqUrl: string;
    /** Address of RabbitMQ's management HTTP API without credentials. */
    managementUrl: string;
  }
}

/** Resolves the services once for all test files; returns what ends them. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  await using ends = new AsyncDisposableStack();
  const services = ends.use(
    await resolveServices({
      // On stderr, so that a reporter's output on stdout stays whole.
      log: (line) => process.stderr.write(`${line}\n`),
      fsync: false,
    }),
  );
  if (services.managementUrl === undefined) {
    throw new Error(
      "Cannot run the tests on this RabbitMQ: its management API does not answer, and each test makes a virtual host of its own with it. " +
        "Set WAYBILL_MANAGEMENT_URL, enable it with: rabbitmq-plugins enable rabbitmq_management, or unset RABBITMQ_URL to have a broker started.",
    );
  }
  const template = ends.use(await createTemplate(services.databaseUrl));
  project.provide("databaseUrl", services.databaseUrl);
  project.provide("migratedDatabase", template.name);
  project.provide("rabbitmqUrl", services.rabbitmqUrl);
  project.provide("managementUrl", services.managementUrl);
  const all = ends.move();
  return () => all.disposeAsync();
}
