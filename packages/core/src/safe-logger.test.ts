import { expect, test } from "vitest";
import { BrokerUnavailableError } from "./errors.ts";
import { type Logger, silentLogger } from "./logger.ts";
import { loggableError, safeLogger } from "./safe-logger.ts";

/** A logger that keeps its lines as JSON, as loggers that write every field of an error do. */
function keeping(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const add = (fields: object, message: string): void => {
    const { err, ...rest } = fields as { readonly err?: object };
    const own =
      err === undefined
        ? {}
        : Object.fromEntries(
            Object.getOwnPropertyNames(err).map((name) => [
              name,
              (err as Record<string, unknown>)[name],
            ]),
          );
    lines.push(JSON.stringify({ ...rest, err: own, message }));
  };
  const logger: Logger = {
    child: () => logger,
    debug: add,
    info: add,
    warn: add,
    error: add,
  };
  return { logger, lines };
}

test("S9: what drivers and clients put into an error's own fields is not logged, at any depth of causes", () => {
  const { logger, lines } = keeping();
  const rich = Object.assign(new Error("duplicate key", { cause: undefined }), {
    code: "23505",
    detail: "Key (email)=(canary) already exists.",
    where: "canary",
    parameters: ["canary"],
    config: { headers: { authorization: "canary" } },
  });
  const error = Object.assign(
    new Error("cannot save to postgres://app:canary@db/app", { cause: rich }),
    {
      request: { body: "canary" },
    },
  );

  safeLogger(logger).child({}).warn({ jobId: "1", err: error }, "attempt failed");
  safeLogger(logger).error(
    { err: { name: "Odd", message: "odd", secret: "canary" } },
    "stray error",
  );
  safeLogger(logger).info({ err: new AggregateError([rich], "") }, "unreachable");

  expect(lines.join("\n")).not.toContain("canary");
  expect(lines[0]).toContain("postgres://***@db/app");
  expect(lines[0]).toContain("23505");
  expect(lines[1]).toContain("odd");
});

test("an error that is logged keeps its class, message, stack, code and causes", () => {
  const inner = new TypeError("inner");
  const error = new BrokerUnavailableError("no broker", true, { cause: inner });

  const logged = loggableError(error);

  expect(logged).toBeInstanceOf(BrokerUnavailableError);
  expect(logged).toMatchObject({ name: error.name, message: "no broker", code: error.code });
  expect((logged as Error).stack).toContain("safe-logger.test");
  expect((logged as Error).cause).toBeInstanceOf(TypeError);
});

test("a logger that throws, and an error that cannot be read, keep nothing from going on", () => {
  const throwing = (): never => {
    throw new Error("disk full");
  };
  const bad: Logger = { ...silentLogger, child: throwing, warn: throwing };
  const odd = new Proxy(new Error("odd"), { get: throwing });

  safeLogger(bad).child({ a: 1 }).warn({ err: odd }, "line");

  expect(loggableError(odd)).toBeInstanceOf(Error);
  expect(loggableError("text\u001b[31m")).toBe("text");
  expect(loggableError(undefined)).toBe("undefined");
});
