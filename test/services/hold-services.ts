/** A program for the resolver's tests: resolves the services, says where they are and holds them until its stdin ends. */
import { resolveServices } from "../../scripts/services/index.ts";

await using services = await resolveServices({ log: console.log, fsync: false });
const { databaseUrl, rabbitmqUrl, managementUrl, source, postgres, rabbitmq } = services;
const traces = [postgres, rabbitmq].map((server) => ({
  pid: server?.pid,
  directory: server?.directory,
}));
console.log(
  `holding ${JSON.stringify({ databaseUrl, rabbitmqUrl, managementUrl, source, traces })}`,
);
for await (const _ of process.stdin);
