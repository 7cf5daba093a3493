import { connect } from "node:net";

import { managementAnswers } from "./rabbitmq-answers.ts";
import type { Services } from "./services.ts";

/** Whether something accepts connections at the URL's host and port. */
async function accepts(url: URL, defaultPort: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const host = url.hostname.replace(/^\[|\]$/g, "") || "localhost";
  const socket = connect({ host, port: Number(url.port || defaultPort) });
  socket.setTimeout(5_000, () => resolve(false));
  socket.once("error", () => resolve(false));
  socket.once("connect", () => resolve(true));
  const isOpen = await promise;
  socket.destroy();
  return isOpen;
}

/** The management API of a given broker: WAYBILL_MANAGEMENT_URL, or the usual port of the broker's host. */
async function findManagement(broker: URL): Promise<string | undefined> {
  const given = process.env["WAYBILL_MANAGEMENT_URL"];
  if (given) return given.replace(/\/+$/, "");
  const user = decodeURIComponent(broker.username || "guest");
  const password = decodeURIComponent(broker.password || "guest");
  const usual = `http://${broker.hostname || "localhost"}:15672`;
  return (await managementAnswers(usual, `${user}:${password}`)) ? usual : undefined;
}

/** Given services are not ours to end. */
async function nothingToStop(): Promise<void> {}

/**
 * The services of DATABASE_URL and RABBITMQ_URL, or why they are not used.
 * @throws Error where both are set but one does not answer: somebody wanted these and no others
 */
export async function givenServices(): Promise<Services | string> {
  const databaseUrl = process.env["DATABASE_URL"];
  const rabbitmqUrl = process.env["RABBITMQ_URL"];
  if (!databaseUrl && !rabbitmqUrl) return "DATABASE_URL and RABBITMQ_URL are not set";
  if (!databaseUrl) return "RABBITMQ_URL is set, but DATABASE_URL is not";
  if (!rabbitmqUrl) return "DATABASE_URL is set, but RABBITMQ_URL is not";
  for (const [name, text, port] of [
    ["DATABASE_URL", databaseUrl, 5432],
    ["RABBITMQ_URL", rabbitmqUrl, 5672],
  ] as const) {
    if (!URL.canParse(text)) throw new Error(`Cannot use ${name}: it is not a URL.`);
    const url = new URL(text);
    if (await accepts(url, port)) continue;
    throw new Error(
      `Cannot use ${name}: nothing answers at ${url.hostname}:${url.port || port}. Start that server, or unset ${name} to have one started.`,
    );
  }
  return {
    databaseUrl,
    rabbitmqUrl,
    managementUrl: await findManagement(new URL(rabbitmqUrl)),
    source: "url",
    why: "DATABASE_URL and RABBITMQ_URL are set",
    postgres: undefined,
    rabbitmq: undefined,
    stop: nothingToStop,
    [Symbol.asyncDispose]: nothingToStop,
  };
}
