/** How a relay starts, refuses to start, and stops. */

import {
  BrokerUnavailableError,
  ConfigError,
  DatabaseUnavailableError,
  SchemaVersionError,
} from "@waybill/core";
import { createRelay } from "@waybill/relay";
import { expect, test } from "vitest";

import { createTestDatabase, eventually, startProxy } from "../support/index.ts";
import { enqueue, isDrained, startHouse } from "./support.ts";

test("wrong options are refused all at once, with their names", () => {
  const create = (): unknown =>
    createRelay({
      databaseUrl: "mysql://x",
      broker: { url: "http://y", prefix: "Not Good" },
      batchSize: 0,
      inboxRetentionMs: 3_600_000,
      // @ts-expect-error: an option that does not exist
      unknown: true,
    });

  expect(create).toThrow(ConfigError);
  try {
    create();
  } catch (error) {
    const paths = (error as ConfigError).issues.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(["databaseUrl", "broker.url", "broker.prefix", "batchSize"]),
    );
    expect((error as Error).message).not.toContain("mysql://x");
  }
});

test("K1: an inbox retention that is shorter than the outbox's is refused", () => {
  expect(() =>
    createRelay({
      databaseUrl: "postgres://a/b",
      broker: { url: "amqp://a" },
      outboxRetentionMs: 86_400_000,
      inboxRetentionMs: 86_400_000,
    }),
  ).toThrow(/inboxRetentionMs/);
});

test("a missing schema ends the start at once with what to do", async () => {
  await using house = await startHouse();
  await using empty = await createTestDatabase();
  const relay = house.startRelay({ databaseUrl: empty.url });

  await expect(relay.ended).rejects.toThrow(SchemaVersionError);
  await expect(relay.ended).rejects.toThrow(/waybill migrate/);
  expect(relay.it.status().state).toBe("stopped");
});

test("a database that does not exist ends the start at once and is named as the cause", async () => {
  await using house = await startHouse();
  const url = new URL(house.database.url);
  url.pathname = "/no_such_database";
  const relay = house.startRelay({ databaseUrl: url.href });

  await expect(relay.ended).rejects.toThrow(DatabaseUnavailableError);
  await expect(relay.ended).rejects.toThrow(/database does not exist/);
});

test("a refused password of the broker ends the start at once and shows no password", async () => {
  await using house = await startHouse();
  const url = new URL(house.vhost.url);
  url.username = "nobody";
  url.password = "secret-of-nobody";
  const relay = house.startRelay({ broker: { url: url.href } });

  await expect(relay.ended).rejects.toThrow(BrokerUnavailableError);
  const error = await relay.ended.catch((reason: unknown) => reason);
  expect(String(error)).not.toContain("secret-of-nobody");
});

test("a relay that is started before its database and broker waits for them", async () => {
  await using house = await startHouse();
  await using database = await startProxy(house.database.url);
  await using broker = await startProxy(house.vhost.url);
  database.refuse();
  broker.refuse();
  const { prefix } = house.vhost;
  const relay = house.startRelay({
    databaseUrl: database.url(house.database.url),
    broker: { url: broker.url(house.vhost.url), prefix },
  });
  await enqueue(house.database.pool, [{}]);
  await eventually(() => relay.it.status().lastError !== undefined);
  expect(relay.it.status().state).toBe("starting");

  database.pass();
  broker.pass();

  await eventually(() => isDrained(house));
});

test("stopping waits for outstanding confirms, saves the position and gives up the term", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const relay = house.startRelay({ batchSize: 100 });
  await eventually(() => relay.it.status().state === "leading");
  await enqueue(
    house.database.pool,
    Array.from({ length: 1_000 }, () => ({})),
  );
  await eventually(() => relay.it.status().published > 0);

  await relay.stop();
  await relay.stop();

  const [row] = await house.database.rows("select holder, lease_until from waybill.relay");
  expect(row).toEqual({ holder: null, lease_until: null });
  house.startRelay();
  await eventually(() => isDrained(house));
  await eventually(() => collected.ids.length === 1_000);
  // What was confirmed is not published again.
  expect(collected.messages).toHaveLength(1_000);
});

test("a relay can be stopped before it has started, and disposed of twice", async () => {
  await using house = await startHouse();
  const relay = createRelay(house.relayOptions());

  await relay.run({ signal: AbortSignal.abort() });
  await relay[Symbol.asyncDispose]();
  await relay[Symbol.asyncDispose]();

  expect(relay.status().state).toBe("stopped");
});
