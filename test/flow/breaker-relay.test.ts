/** The relay that leads moves the breakers on, and tells of it. */

import { defineDependency, type Logger, silentLogger } from "@waybill/core";
import { createDependencies, createDependencyStore, pgDatabase } from "@waybill/postgres";
import { expect, test } from "vitest";
import { startHouse } from "../relay/support.ts";
import { eventually } from "../support/index.ts";

interface Line {
  readonly level: "info" | "warn";
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A logger that keeps what is said of breakers. */
function breakerLog(): { readonly logger: Logger; readonly lines: Line[] } {
  const lines: Line[] = [];
  const keep =
    (level: Line["level"]) =>
    (fields: object, message: string): void => {
      if (message.startsWith("breaker")) lines.push({ level, message, fields: { ...fields } });
    };
  const logger: Logger = {
    ...silentLogger,
    child: () => logger,
    info: keep("info"),
    warn: keep("warn"),
  };
  return { logger, lines };
}

test("a breaker opens and closes under a relay that leads, each change is logged, and a restart keeps it", async () => {
  await using house = await startHouse();
  const { pool } = house.database;
  const store = createDependencyStore(pool);
  const dependencies = createDependencies({ database: pgDatabase(pool), actor: "anna" });
  const report = { dependency: "api", ageMs: 0, attempts: 1 };
  const stateIs = async (state: string): Promise<boolean> =>
    (await dependencies.list())[0]?.state === state;
  const first = breakerLog();
  const relay = house.startRelay({ logger: first.logger });

  await store.declare([defineDependency({ name: "api", minimum: 1, openMs: 100, openMaxMs: 100 })]);
  await store.record([{ ...report, failureClass: "transient" }]);
  await eventually(() => first.lines.some(({ message }) => message === "breaker half open"));
  await store.record([{ ...report, failureClass: null }]);
  await eventually(() => stateIs("closed"));
  await dependencies.open("api", { reason: "their maintenance" });
  await eventually(() => first.lines.at(-1)?.message === "breaker open");
  await relay.stop();
  const second = breakerLog();
  house.startRelay({ logger: second.logger });
  await eventually(() => second.lines.length > 0);

  expect(await stateIs("open")).toBe(true);
  expect(
    first.lines.map(({ level, message, fields }) => [level, message, fields["reason"]]),
  ).toEqual([
    ["warn", "breaker open", "1 of 1 attempts failed within 30 s"],
    ["info", "breaker half open", "a probe is due"],
    ["info", "breaker closed", "a probe succeeded"],
    ["warn", "breaker open", "their maintenance"],
  ]);
  expect(second.lines).toEqual([
    {
      level: "warn",
      message: "breaker open",
      fields: { dependency: "api", state: "open", reason: "their maintenance" },
    },
  ]);
});
