import { existsSync } from "node:fs";
import { connect } from "node:net";
import { expect, test } from "vitest";

import { isAlive } from "../../scripts/services/processes.ts";
import { eventually, startProcess, type TestProcess } from "../support/index.ts";

interface Held {
  readonly databaseUrl: string;
  readonly rabbitmqUrl: string;
  readonly source: string;
  readonly traces: readonly { readonly pid?: number; readonly directory?: string }[];
}

/** Starts hold-services.ts with nothing of our environment but what chooses between Docker and local programs. */
async function startHolder(env: Record<string, string | undefined> = {}): Promise<TestProcess> {
  const names = ["WAYBILL_SERVICES", "DOCKER_HOST", "TESTCONTAINERS_RYUK_DISABLED"];
  const images = ["WAYBILL_TEST_POSTGRES_IMAGE", "WAYBILL_TEST_RABBITMQ_IMAGE"];
  const own = Object.fromEntries([...names, ...images].map((name) => [name, process.env[name]]));
  return await startProcess(new URL("hold-services.ts", import.meta.url), [], { ...own, ...env });
}

async function held(holder: TestProcess): Promise<Held> {
  const line = await holder.waitForLine("holding ", { deadlineMs: 120_000 });
  return JSON.parse(line.slice("holding ".length)) as Held;
}

async function answers(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: hostname, port: Number(port) });
  socket.once("connect", () => resolve(true));
  socket.once("error", () => resolve(false));
  const isOpen = await promise;
  socket.destroy();
  return isOpen;
}

/** What of the services still answers, runs or lies on the disk. */
async function remains(services: Held): Promise<string[]> {
  const { databaseUrl, rabbitmqUrl, traces } = services;
  const found: string[] = [];
  for (const url of [databaseUrl, rabbitmqUrl]) if (await answers(url)) found.push(url);
  for (const { pid, directory } of traces) {
    if (pid !== undefined && isAlive(pid)) found.push(`process ${pid}`);
    if (directory !== undefined && existsSync(directory)) found.push(directory);
  }
  return found;
}

test("services that the resolver started are gone when it is stopped", async () => {
  await using holder = await startHolder();
  const services = await held(holder);
  expect(await answers(services.databaseUrl)).toBe(true);
  expect(await answers(services.rabbitmqUrl)).toBe(true);

  holder.endInput();

  expect(await holder.exited).toEqual({ code: 0, signal: null });
  expect(await remains(services)).toEqual([]);
}, 180_000);

test("services that the resolver started are gone when its process is killed", async () => {
  await using holder = await startHolder();
  const services = await held(holder);

  holder.kill("SIGKILL");

  await holder.exited;
  await eventually(async () => expect(await remains(services)).toEqual([]));
}, 180_000);

test("given URLs are taken before anything else, and left alone", async () => {
  await using first = await startHolder();
  const { databaseUrl, rabbitmqUrl } = await held(first);
  await using second = await startHolder({
    WAYBILL_SERVICES: undefined,
    DATABASE_URL: databaseUrl,
    RABBITMQ_URL: rabbitmqUrl,
  });

  const services = await held(second);
  second.endInput();
  await second.exited;

  expect(services).toMatchObject({ source: "url", databaseUrl, rabbitmqUrl });
  expect(second.stdout[0]).toContain("services: url: DATABASE_URL and RABBITMQ_URL are set");
  expect(await answers(databaseUrl)).toBe(true);
  expect(await answers(rabbitmqUrl)).toBe(true);
}, 180_000);

test("a given URL at which nothing answers is an error that names it and the remedy", async () => {
  await using holder = await startHolder({
    WAYBILL_SERVICES: undefined,
    DATABASE_URL: "postgres://127.0.0.1:1/nothing",
    RABBITMQ_URL: "amqp://127.0.0.1:1",
  });

  const { code } = await holder.exited;

  expect(code).toBe(1);
  expect(holder.stderr.join("\n")).toContain(
    "Cannot use DATABASE_URL: nothing answers at 127.0.0.1:1. Start that server, or unset DATABASE_URL",
  );
});

test("Docker asked for and not there is an error, not another source", async () => {
  await using holder = await startHolder({
    WAYBILL_SERVICES: "docker",
    DOCKER_HOST: "unix:///nonexistent/docker.sock",
  });

  const { code } = await holder.exited;

  expect(code).toBe(1);
  expect(holder.stderr.join("\n")).toContain("Cannot use Docker as WAYBILL_SERVICES=docker says");
});

test("an unknown WAYBILL_SERVICES is an error that names the known ones", async () => {
  await using holder = await startHolder({ WAYBILL_SERVICES: "podman" });

  const { code } = await holder.exited;

  expect(code).toBe(1);
  expect(holder.stderr.join("\n")).toContain("Set it to url, docker or local");
});
