/** Servers that cannot be used: one clear message with the remedy, no secret in it, and never a hang. */

import { expect, inject, test } from "vitest";
import { createTestDatabase, createTestVhost, startLoopbackServer } from "../support/index.ts";
import { runCli, startCli } from "./support.ts";

const canary = "canary-pa55word";

/** The URL with other parts. */
function changed(
  url: string,
  parts: { readonly [K in "hostname" | "port" | "username" | "password" | "pathname"]?: string },
): string {
  return Object.assign(new URL(url), parts).href;
}

/** A server that accepts and never says a word. */
async function startSilence(): Promise<
  AsyncDisposable & { readonly port: string; readonly called: Promise<void> }
> {
  const called = Promise.withResolvers<void>();
  const server = await startLoopbackServer(() => called.resolve());
  return {
    called: called.promise,
    port: String(server.port),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

test.concurrent("a database that cannot be used is explained, whatever is wrong with it", async () => {
  await using silence = await startSilence();
  const good = inject("databaseUrl");
  const cases: readonly (readonly [url: string, fact: RegExp])[] = [
    [changed(good, { port: "1", password: canary }), /nothing listens on port 1.*Start PostgreSQL/],
    [changed(good, { hostname: "no-such-host.invalid", password: canary }), /does not resolve/],
    [
      changed(good, { pathname: "/no_such_database", password: new URL(good).password }),
      /"no_such_database" does not exist.*createdb/,
    ],
    [changed(good, { username: "no_such_role", password: canary }), /user "no_such_role"/],
    [
      changed(good, { hostname: "127.0.0.1", port: silence.port, password: canary }),
      /no answer from|closed by the other side/,
    ],
  ];

  const results = await Promise.all(
    cases.map(([url]) => runCli(["jobs", "list"], { DATABASE_URL: url })),
  );

  for (const [index, result] of results.entries()) {
    expect(result.code, result.stderr).toBe(1);
    expect(result.stderr).toMatch(cases[index]?.[1] ?? /never/);
    expect(result.stderr + result.stdout).not.toContain(canary);
  }
});

test.concurrent("a broker that cannot be used is explained, whatever is wrong with it", async () => {
  await using silence = await startSilence();
  const good = inject("rabbitmqUrl");
  const cases: readonly (readonly [url: string, fact: RegExp])[] = [
    [
      changed(good, { port: "1", username: "waybill", password: canary }),
      /nothing listens on port 1/,
    ],
    [
      changed(good, { hostname: "no-such-host.invalid", username: "waybill", password: canary }),
      /does not resolve/,
    ],
    [
      changed(good, { username: "waybill", password: canary }),
      /refuses the login of user "waybill"/,
    ],
    [
      changed(good, { pathname: "/no-such-vhost" }),
      /virtual host "no-such-vhost" does not exist.*rabbitmqctl add_vhost/,
    ],
    [
      changed(good, {
        hostname: "127.0.0.1",
        port: silence.port,
        username: "waybill",
        password: canary,
      }),
      /no answer from/,
    ],
  ];

  const results = await Promise.all(
    cases.map(([url]) => runCli(["topology", "check", "--queue", "emails"], { RABBITMQ_URL: url })),
  );

  for (const [index, result] of results.entries()) {
    expect(result.code, result.stderr).toBe(1);
    expect(result.stderr).toMatch(cases[index]?.[1] ?? /never/);
    expect(result.stderr + result.stdout).not.toContain(canary);
  }
});

test.concurrent("a daemon ends at once where only an operator can help, and with --no-wait in any case", async () => {
  await using database = await createTestDatabase();
  await using vhost = await createTestVhost();
  const urls = { DATABASE_URL: database.url, RABBITMQ_URL: vhost.url };

  const wrongDatabase = await runCli(["relay"], {
    ...urls,
    DATABASE_URL: changed(database.url, { pathname: "/no_such_database" }),
  });
  const noWait = await runCli(["relay", "--no-wait"], {
    ...urls,
    DATABASE_URL: changed(database.url, { port: "1", password: canary }),
  });
  const noSchema = await runCli(["relay", "--no-wait"], urls);

  expect(wrongDatabase.code).toBe(1);
  expect(wrongDatabase.stderr).toMatch(/"no_such_database" does not exist/);
  expect(noWait.code).toBe(1);
  expect(noWait.stderr).toMatch(/nothing listens on port 1/);
  expect(noWait.stderr + noWait.stdout).not.toContain(canary);
  expect(noSchema.code).toBe(1);
  expect(noSchema.stderr).toMatch(/it holds no Waybill tables. Run "waybill migrate"/);
});

test.concurrent("every command says that the schema is missing, and how to make it", async () => {
  await using database = await createTestDatabase();
  const id = "01890000-0000-7000-8000-000000000001";

  const results = await Promise.all(
    [
      ["jobs", "list"],
      ["jobs", "show", id],
      ["dead", "list"],
      ["topology", "check"],
    ].map((args) =>
      runCli(args, { DATABASE_URL: database.url, RABBITMQ_URL: inject("rabbitmqUrl") }),
    ),
  );

  for (const result of results) {
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(/it holds no Waybill tables. Run "waybill migrate"/);
  }
});

test.concurrent("a command that is interrupted ends with 130", async () => {
  await using silence = await startSilence();
  const url = changed(inject("databaseUrl"), { hostname: "127.0.0.1", port: silence.port });
  await using command = await startCli(["jobs", "list"], { DATABASE_URL: url });

  await silence.called;
  command.kill("SIGINT");

  expect(await command.exited).toEqual({ code: 130, signal: null });
});
