import { expect, test } from "vitest";
import { databaseTarget, diagnoseDatabase } from "./database-errors.ts";

const url = "postgres://shop:canary-pa55word@db.internal:6432/orders";

const failure = (code: string, message: string): Error =>
  Object.assign(new Error(message), { code });

test.each([
  [
    "28P01",
    'password authentication failed for user "shop"',
    /refuses the password of user "shop"/,
    false,
  ],
  ["28000", "no pg_hba.conf entry for host", /does not let user "shop" in/, false],
  ["3D000", 'database "orders" does not exist', /database "orders" does not exist/, false],
  ["53300", "sorry, too many clients already", /no connection left/, true],
  ["57P03", "the database system is starting up", /starting up/, true],
  ["25006", "cannot execute INSERT in a read-only transaction", /read-only/, true],
  ["42501", "permission denied for schema waybill", /no right/, false],
  ["ECONNREFUSED", "", /nothing listens on port 6432/, true],
  ["EAI_AGAIN", "", /does not resolve/, true],
  ["", "timeout expired", /no answer from db\.internal:6432/, true],
  ["", "SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string", /holds none/, false],
  ["", "The server does not support SSL connections", /does not speak TLS/, false],
  ["", "Connection terminated unexpectedly", /closed by the other side/, true],
])(
  "error %s (%s) is explained, with what to do, and without the password",
  (code, message, fact, waitingHelps) => {
    const diagnosis = diagnoseDatabase(failure(code, message), url);

    expect(diagnosis?.error.message).toMatch(fact);
    expect(diagnosis?.error.message).toMatch(
      /^Cannot use PostgreSQL at db\.internal:6432\/orders: /,
    );
    expect(diagnosis?.error.message).not.toContain("canary");
    expect(diagnosis?.waitingHelps).toBe(waitingHelps);
  },
);

test("a file of the URL that cannot be read is named, and no port is blamed", () => {
  const error = Object.assign(failure("ENOENT", "no such file"), {
    syscall: "open",
    path: "/ca.pem",
  });

  const diagnosis = diagnoseDatabase(error, url);

  expect(diagnosis?.error.message).toMatch(
    /file \/ca\.pem .* cannot be read \(ENOENT\).*sslrootcert/,
  );
  expect(diagnosis?.waitingHelps).toBe(false);
});

test("an error of several addresses is explained by the first", () => {
  const error = new AggregateError([failure("ECONNREFUSED", "connect ECONNREFUSED ::1:6432")]);

  expect(diagnoseDatabase(error, url)?.error.message).toMatch(/nothing listens/);
});

test("an error that is not about reaching or using the server is not explained", () => {
  expect(diagnoseDatabase(failure("42703", 'column "x" does not exist'), url)).toBeUndefined();
});

test("a socket folder and a user that is left out are shown as such", () => {
  expect(databaseTarget("postgres:///orders?host=/run/postgresql").display).toBe(
    "/run/postgresql:5432/orders",
  );
});
