import { expect, test } from "vitest";
import { operatingError, queueFullError, sqlStateOf, unavailableError } from "./database-errors.ts";

test.each([
  ["pg and postgres.js", { code: "40001" }],
  ["Drizzle", { message: "Failed query", cause: { code: "40001" } }],
  ["Sequelize", { name: "SequelizeDatabaseError", parent: { code: "40001" }, original: {} }],
  ["TypeORM", { driverError: { code: "40001" } }],
  ["Prisma", { code: "P2010", meta: { driverAdapterError: { cause: { originalCode: "40001" } } } }],
  ["Bun", { code: "ERR_POSTGRES_SERVER_ERROR", errno: "40001" }],
])("the SQLSTATE is found in an error of %s", (_layer, error) => {
  expect(sqlStateOf(error)).toBe("40001");
});

test("what is not PostgreSQL's error has no SQLSTATE", () => {
  const loop: Record<string, unknown> = {};
  loop["cause"] = loop;

  for (const error of [
    undefined,
    null,
    "40001",
    new Error("x"),
    { code: "EPIPE" },
    { code: "P2010" },
    { code: 40001 },
    loop,
  ]) {
    expect(sqlStateOf(error)).toBeUndefined();
  }
});

test("an error that the caller has to handle is not translated", () => {
  for (const code of ["40001", "40P01", "23505", "57014", "22P02"]) {
    expect(unavailableError("enqueue", { code })).toBeUndefined();
    expect(operatingError("enqueue", "waybill", { code })).toBeUndefined();
  }
});

test.each([
  [{ code: "25006" }, "WAYBILL_DATABASE_UNAVAILABLE"],
  [{ code: "28P01" }, "WAYBILL_DATABASE_UNAVAILABLE"],
  [{ code: "57P03" }, "WAYBILL_DATABASE_UNAVAILABLE"],
  [{ cause: { code: "ECONNREFUSED" } }, "WAYBILL_DATABASE_UNAVAILABLE"],
  [{ code: "42P01" }, "WAYBILL_SCHEMA_VERSION"],
  [{ code: "3F000" }, "WAYBILL_SCHEMA_VERSION"],
  [{ code: "42883" }, "WAYBILL_SCHEMA_VERSION"],
])("%j is an operator's to act on: %s", (error, code) => {
  expect(operatingError("enqueue", "waybill", error)).toMatchObject({ code, cause: error });
});

test("a full queue is read from the error of any layer, whatever its key is", () => {
  const key = 'a "b" \\ } {"max": 9}';
  const message = `waybill.enqueue: the queue is full: {"key": ${JSON.stringify(key)}, "max": 5, "queue": "q"}`;
  const wrapped = {
    code: "P2010",
    message: "x",
    meta: { driverAdapterError: { cause: { originalCode: "WB001", originalMessage: message } } },
  };

  for (const error of [
    { code: "WB001", message },
    { message: "Failed query", cause: { code: "WB001", message } },
    wrapped,
  ]) {
    expect(queueFullError(error)).toMatchObject({ queue: "q", key, max: 5, cause: error });
  }
  expect(
    queueFullError({
      code: "WB001",
      message: message.replace(/\{.*, "max"/, '{"key": null, "max"'),
    }),
  ).toMatchObject({
    key: undefined,
    max: 5,
  });
});

test("no other error is a full queue", () => {
  const message = 'the queue is full: {"key": null, "max": 5, "queue": "q"}';

  for (const error of [
    undefined,
    "x",
    { code: "23505", message },
    { code: "WB001", message: "x" },
  ]) {
    expect(queueFullError(error)).toBeUndefined();
  }
});
