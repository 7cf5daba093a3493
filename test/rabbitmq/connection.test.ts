import { type Socket } from "node:net";
import { silentLogger } from "@waybill/core";
import { createBrokerConnection, queueDepth } from "@waybill/rabbitmq";
import { expect, inject, test } from "vitest";

import {
  eventually,
  type LoopbackServer,
  startLoopbackServer,
  startProxy,
} from "../support/index.ts";
import { connected, recordingLogger } from "./support.ts";

/** The message of the first failed round. */
async function failureOf(url: string | readonly string[]): Promise<string> {
  await using connection = createBrokerConnection({ url, name: "test", logger: silentLogger });
  const error: unknown = await connection.tryReady(AbortSignal.timeout(15_000)).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return error instanceof Error ? error.message : String(error);
}

function urlWith(change: (url: URL) => void): string {
  const url = new URL(inject("rabbitmqUrl"));
  change(url);
  return url.href;
}

test("a wrong password is named as such, without the password", async () => {
  const url = urlWith((each) => {
    each.username = "ann";
    each.password = "s3cret";
  });

  const text = await failureOf(url);

  expect(text).toMatch(
    /^Cannot reach RabbitMQ at amqp:\/\/\*\*\*@[^ ]+: the broker refuses the login of user "ann"\. /,
  );
  expect(text).not.toContain("s3cret");
});

test("a missing virtual host is named, with the commands that make it", async () => {
  const text = await failureOf(urlWith((url) => (url.pathname = "/no-such-vhost")));

  expect(text).toContain(`the virtual host "no-such-vhost" does not exist`);
  expect(text).toContain("rabbitmqctl add_vhost no-such-vhost");
});

test("a port where nothing listens is named", async () => {
  expect(await failureOf("amqp://127.0.0.1:1")).toBe(
    "Cannot reach RabbitMQ at amqp://127.0.0.1:1: nothing listens on port 1 of 127.0.0.1 " +
      "(connection refused). Start RabbitMQ there, or correct the URL.",
  );
});

test("a host name that does not resolve is named", async () => {
  expect(await failureOf("amqp://broker.invalid")).toContain(
    "the host name broker.invalid does not resolve",
  );
});

test("a port of another service is told from a broker", async () => {
  const postgres = new URL(inject("databaseUrl"));
  await using web = await serverThat((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));

  expect(await failureOf(`amqp://${postgres.hostname}:${postgres.port || 5432}`)).toContain(
    "5432 is PostgreSQL",
  );
  expect(await failureOf(`amqp://127.0.0.1:${web.port}`)).toContain(
    "something answers there, but it does not speak AMQP 0-9-1",
  );
});

const serverThat = (answer: (socket: Socket) => void): Promise<LoopbackServer> =>
  startLoopbackServer((socket) => {
    socket.resume();
    answer(socket);
  });

test("closing ends a handshake that nobody answers", async () => {
  await using silent = await serverThat(() => undefined);
  const connection = createBrokerConnection({
    url: `amqp://127.0.0.1:${silent.port}`,
    name: "test",
    logger: silentLogger,
  });
  const waiting = connection.ready();

  await connection.close();

  await expect(waiting).rejects.toThrow("it is closed");
  expect(connection.state).toBe("closed");
});

test("an attempt that nobody answers ends after the connect timeout", async () => {
  await using silent = await serverThat(() => undefined);
  await using connection = createBrokerConnection({
    url: `amqp://127.0.0.1:${silent.port}`,
    name: "test",
    logger: silentLogger,
    connectTimeoutMs: 200,
  });

  await expect(connection.tryReady()).rejects.toThrow("no answer from 127.0.0.1");
});

test("of several brokers the next one is tried after a failure", async () => {
  await using connection = createBrokerConnection({
    url: ["amqp://127.0.0.1:1", inject("rabbitmqUrl")],
    name: "test",
    logger: silentLogger,
  });

  await connection.tryReady(AbortSignal.timeout(15_000));

  expect(connection.capabilities?.supported).toBe(true);
});

test("a lost connection comes back with a new generation, one log line for each transition", async () => {
  await using proxy = await startProxy(inject("rabbitmqUrl"));
  const { logger, lines } = recordingLogger();
  const connection = await connected(proxy.url(inject("rabbitmqUrl")), logger);
  await using _ = connection;
  const states: string[] = [];
  connection.onStateChange((state) => states.push(state));
  const generations: number[] = [];
  connection.onReady((generation) => generations.push(generation));

  proxy.cut();
  await eventually(() => connection.generation === 2);
  proxy.refuse();
  await eventually(() => lines.length === 5);
  proxy.pass();
  await connection.ready();

  expect(generations).toEqual([1, 2, 3]);
  expect(states).toEqual(["connecting", "ready", "connecting", "ready"]);
  expect(lines.map((line) => line.split(" {")[0])).toEqual([
    "info broker connected",
    "warn broker connection lost",
    "info broker connected",
    "warn broker connection lost",
    "warn broker unreachable",
    "info broker connected",
  ]);
  expect(lines.join("\n")).not.toContain("guest:guest");
});

test("a call that the broker does not answer ends the connection instead of hanging", async () => {
  await using proxy = await startProxy(inject("rabbitmqUrl"));
  await using connection = await connected(proxy.url(inject("rabbitmqUrl")));
  const channel = await connection.openChannel();
  proxy.blackHole();

  const answer = channel.call("look", (raw) => raw.checkExchange("amq.direct"), 200);
  await expect(answer).rejects.toThrow(/Cannot look: no answer from .* within 200 ms/);
  await eventually(() => connection.state === "connecting");
  proxy.pass();
  await connection.ready();

  expect(channel.isOpen).toBe(false);
  expect(await queueDepth(connection, "no-such-queue")).toBeUndefined();
});

test("A12: a broker that falls silent is noticed by the missing heartbeat", async () => {
  await using proxy = await startProxy(inject("rabbitmqUrl"));
  await using connection = createBrokerConnection({
    url: proxy.url(inject("rabbitmqUrl")),
    name: "test",
    logger: silentLogger,
    heartbeatSeconds: 1,
  });
  await connection.ready();
  proxy.blackHole("in");

  await eventually(() => connection.state === "connecting");
  expect(connection.lastError?.message).toContain("the broker is silent: no heartbeat");
  proxy.pass();

  await connection.ready();
});

test("closing does not wait for a broker that has stalled", async () => {
  await using proxy = await startProxy(inject("rabbitmqUrl"));
  const connection = await connected(proxy.url(inject("rabbitmqUrl")));
  proxy.blackHole();

  await connection.close(100);
  await connection.close();

  expect(connection.state).toBe("closed");
  await eventually(() => proxy.connectionCount === 0);
});
