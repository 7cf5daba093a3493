import { expect, test } from "vitest";
import { createMigratedDatabase, type TestDatabase } from "../support/index.ts";
import { addWorker } from "../support/worker-row.ts";
import { runCli } from "./support.ts";

/** A queue that a worker consumes and code has declared. */
async function startQueue(): Promise<TestDatabase> {
  const database = await createMigratedDatabase();
  const worker = await addWorker(database, "worker-1");
  await database.rows(
    `insert into waybill.worker_queue (worker, queue, concurrency, granted, held) values ($1, 'emails', 10, 5, 5)`,
    [worker],
  );
  await database.rows(
    `insert into waybill.queue (name, declared) values ('emails', '{"concurrency":10,"keys":{"tiers":{"gold":{"weight":5}}}}')`,
  );
  return database;
}

test("settings are set over the declared ones, shown with their origin, and taken back", async () => {
  await using database = await startQueue();
  const env = { DATABASE_URL: database.url };

  const set = await runCli(
    ["queue", "set", "emails", "--concurrency", "5", "--rate", "200/s", "--key-concurrency", "2"],
    env,
  );
  const parts = await runCli(
    ["queue", "set", "emails", "--burst", "20", "--order", "--reason", "sale", "--json"],
    env,
  );
  const shown = await runCli(["queue", "show", "emails"], env);
  const listed = await runCli(["queue"], env);
  const asked = await runCli(["queue", "reset", "emails"], env);
  const reset = await runCli(["queue", "reset", "emails", "--yes", "--json"], env);

  expect(set.code).toBe(0);
  expect(set.stdout).toMatch(/^concurrency +5\n/m);
  expect(parts.json()).toEqual({
    queue: "emails",
    settings: {
      concurrency: 5,
      rate: { limit: 200, burst: 20 },
      keys: { concurrency: 2, tiers: { gold: { weight: 5 } } },
      order: {},
    },
  });
  expect(shown.stdout).toMatch(/^kind +governed$/m);
  expect(shown.stdout).toMatch(/^rate +200\/s burst 20 \(set by an operator\)$/m);
  expect(shown.stdout).toMatch(/^worker worker-1 +runs up to 10, share 5$/m);
  expect(shown.stdout).toMatch(/Z set by cli\S*: rate 200\/s -> 200\/s burst 20.*: sale$/m);
  expect(listed.stdout).toMatch(/^emails +governed +open +0 +0 +0 +1 +10 +concurrency 5,/m);
  expect(asked.code).toBe(2);
  expect(asked.stderr).toMatch(/--yes: is needed/);
  expect(reset.json()).toMatchObject({ settings: { concurrency: 10 } });
});

test("contradictory limits are refused with every problem, and nothing is changed", async () => {
  await using database = await startQueue();
  const env = { DATABASE_URL: database.url };

  const contradiction = await runCli(
    ["queue", "set", "emails", "--key-concurrency", "11", "--settings", '{"wieght":1}'],
    env,
  );
  const unit = await runCli(["queue", "set", "emails", "--rate", "200"], env);
  const nothing = await runCli(["queue", "set", "emails"], env);

  expect([contradiction.code, unit.code, nothing.code]).toEqual([2, 2, 2]);
  expect(contradiction.stderr).toMatch(/keys\.concurrency: is 11, more than .* 10/);
  expect(contradiction.stderr).toMatch(/wieght/);
  expect(unit.stderr).toMatch(/such as 200\/s/);
  expect(nothing.stderr).toMatch(/name what to set/);
  expect(await database.rows("select overrides from waybill.queue")).toEqual([{ overrides: {} }]);
  expect(await database.rows("select from waybill.audit_log")).toEqual([]);
});

test("a name that nobody has heard of is refused with the one that was meant, unless it is new", async () => {
  await using database = await startQueue();
  const env = { DATABASE_URL: database.url };

  const slip = await runCli(["queue", "pause", "emials"], env);
  const shown = await runCli(["queue", "show", "emials"], env);
  const fresh = await runCli(["queue", "pause", "letters", "--new"], env);

  expect([slip.code, shown.code, fresh.code]).toEqual([2, 2, 0]);
  expect(slip.stderr).toMatch(/emials: is no queue .* did you mean emails\?/);
  expect(fresh.stdout).toBe("letters paused");
  expect(await database.rows("select name from waybill.queue where paused_at is not null")).toEqual(
    [{ name: "letters" }],
  );
});

test("a queue, a type and a key are paused and resumed, each with its reason", async () => {
  await using database = await startQueue();
  const env = { DATABASE_URL: database.url };

  const outputs: string[] = [];
  for (const args of [
    ["pause", "emails", "--reason", "provider is down"],
    ["pause", "emails", "--type", "email.welcome"],
    ["pause", "emails", "--key", "acme", "--reason", "abuse"],
    ["tier", "emails", "acme", "gold"],
    ["pause", "emails"],
    ["resume", "emails"],
  ]) {
    const { code, stdout } = await runCli(["queue", ...args], env);
    outputs.push(`${code} ${stdout}`);
  }
  const shown = await runCli(["queue", "show", "emails"], env);
  const listed = await runCli(["queue", "list"], env);
  const tierless = await runCli(["queue", "tier", "emails", "acme", "bronze"], env);
  const both = await runCli(["queue", "resume", "emails", "--key", "a", "--type", "b"], env);
  const again = await runCli(["queue", "resume", "emails", "--json"], env);

  expect(outputs).toEqual([
    "0 emails paused",
    "0 emails type email.welcome paused",
    "0 emails key acme paused",
    "0 emails key acme tier gold",
    "0 emails was paused already",
    "0 emails resumed",
  ]);
  expect(shown.stdout).toMatch(/^state +open$/m);
  expect(shown.stdout).toMatch(/^type email\.welcome +paused since \S+Z by cli\S*$/m);
  expect(shown.stdout).toMatch(/^key acme +tier gold; paused since \S+Z by cli\S*: abuse$/m);
  expect(listed.stdout).toMatch(/^emails +governed +1 types paused, 1 keys paused /m);
  expect([tierless.code, both.code]).toEqual([2, 2]);
  expect(tierless.stderr).toMatch(/"bronze" is no tier .* there are gold/);
  expect(again.json()).toEqual({ queue: "emails", changed: false });
});
