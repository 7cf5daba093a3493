import { expect, test } from "vitest";
import { defineDependency } from "@waybill/core";
import { createDependencyStore } from "@waybill/postgres";
import { createMigratedDatabase } from "../support/index.ts";
import { runCli } from "./support.ts";

test("breakers are opened, shown, closed, and tell their history", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const store = createDependencyStore(database.pool);
  await store.declare([
    defineDependency({ name: "payments-api", failureRate: 0.3, windowMs: 60_000 }),
    defineDependency({ name: "billing", windowMs: 600_000 }),
  ]);
  await store.record([
    { dependency: "billing", failureClass: "timeout", ageMs: 0, attempts: 2 },
    { dependency: "billing", failureClass: null, ageMs: 0, attempts: 5 },
  ]);

  const opened = await runCli(
    ["breaker", "open", "payments-api", "--reason", "maintenance \u001b[31m", "--yes"],
    env,
  );
  const people = await runCli(["breaker"], env);
  const programs = await runCli(["breaker", "list", "--json"], env);
  const closed = await runCli(["breaker", "close", "payments-api", "--yes", "--json"], env);
  const history = await runCli(["breaker", "history", "payments-api", "--json"], env);
  const told = await runCli(["breaker", "history", "payments-api", "--limit", "1"], env);

  // A reason is a text without control characters.
  expect(opened).toMatchObject({ code: 2 });
  expect(people.code).toBe(0);
  expect(people.stdout.split("\n")[0]).toMatch(
    /^name +state +failed +attempts +opens at +probe +since +by +reason$/,
  );
  expect(people.stdout).toMatch(/^billing +closed +2 +7 +50 % of 10\+ in 10 min /m);
  expect(people.stdout).toMatch(/^payments-api +closed +0 +0 +30 % of 10\+ in 60 s /m);
  expect(programs.json()["dependencies"]).toMatchObject([
    { name: "billing", state: "closed", counted: { succeeded: 5, failed: 2 } },
    { name: "payments-api" },
  ]);
  expect(closed.json()).toMatchObject({ name: "payments-api", state: "closed", manual: false });
  expect(history.json()["events"]).toMatchObject([
    { dependency: "payments-api", state: "closed", actor: expect.stringMatching(/^cli/) },
  ]);
  expect(told.stdout.split("\n")).toHaveLength(2);
});

test("opening a breaker says so, asks where nobody can be asked, and names the known dependencies", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const none = await runCli(["breaker"], env);
  await createDependencyStore(database.pool).declare([defineDependency({ name: "payments-api" })]);

  const asked = await runCli(["breaker", "open", "payments-api"], env);
  const unknown = await runCli(["breaker", "open", "payment-api", "--yes"], env);
  const opened = await runCli(
    ["breaker", "open", "payments-api", "--reason", "maintenance", "--yes"],
    env,
  );
  const shown = await runCli(["breaker", "list"], env);

  expect(none).toMatchObject({ code: 0, stdout: "" });
  expect(none.stderr).toContain("No worker has declared a dependency.");
  expect(asked).toMatchObject({ code: 2, stdout: "" });
  expect(asked.stderr).toContain("--yes");
  expect(unknown.code).toBe(2);
  expect(unknown.stderr).toContain("known are payments-api");
  expect(opened).toMatchObject({ code: 0, stdout: "payments-api open by hand" });
  expect(shown.stdout).toMatch(/^payments-api +open by hand +.* cli\S* +maintenance$/m);
});
