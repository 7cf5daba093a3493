import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { createInboxStore } from "@waybill/postgres";
import { statedFailure } from "@waybill/core";
import { createMigratedDatabase, createTestDatabase, type TestDatabase } from "../support/index.ts";
import { addWorker } from "../support/worker-row.ts";
import { runCli } from "./support.ts";

async function enqueue(database: TestDatabase, type: string, count = 1): Promise<string[]> {
  const jobs = Array.from({ length: count }, (_, n) => ({ type, queue: "emails", payload: { n } }));
  const rows = await database.rows<{ id: string }>(
    "select id from waybill.enqueue(($1::text)::jsonb)",
    [JSON.stringify(jobs)],
  );
  return rows.map(({ id }) => id);
}

/** Enqueues jobs and ends them as failed, as a worker does. */
async function enqueueFailed(
  database: TestDatabase,
  count: number,
  message: string,
): Promise<string[]> {
  const ids = await enqueue(database, "email.welcome", count);
  const store = createInboxStore(database.pool);
  const workerId = await addWorker(database, "w1");
  for (const id of ids) {
    const envelope = {
      id,
      idSource: "given",
      queue: "emails",
      type: "email.welcome",
      version: 1,
      dispatch: 1,
      death: 0,
      priority: null,
      orderingKey: null,
      correlationId: null,
      enqueuedAt: new Date(),
      expiresAt: null,
      runAt: null,
      onTerminal: null,
      concurrencyKey: null,
      slot: null,
      origin: null,
      headers: {},
      payload: '{"n":1}',
      payloadBase64: false,
    } as const;
    await database.rows(
      `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, owner) values ($1, 'emails', 'email.welcome', 'running', 1, 1, $2)`,
      [id, workerId],
    );
    await store.fail([
      {
        id,
        queue: "emails",
        token: "1",
        failure: statedFailure("validation", message),
        retryDelayMs: undefined,
        attempted: true,
        envelope,
      },
    ]);
  }
  return ids;
}

test("jobs are listed by state, in pages, for people and for programs", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  await enqueue(database, "email.welcome", 3);
  await enqueue(database, "email.bye");

  const people = await runCli(["jobs", "list"], env);
  const page = await runCli(
    ["jobs", "list", "--type", "email.welcome", "--limit", "2", "--json"],
    env,
  );
  const rest = await runCli(
    [
      "jobs",
      "list",
      "--type",
      "email.welcome",
      "--cursor",
      String(page.json()["nextCursor"]),
      "--json",
    ],
    env,
  );
  const none = await runCli(["jobs", "list", "--state", "failed", "--json"], env);

  expect(people.code).toBe(0);
  expect(people.stdout.split("\n")).toHaveLength(5);
  expect(people.stdout).toMatch(/^id +queue +type +state/);
  expect(page.json()["jobs"]).toHaveLength(2);
  expect(rest.json()).toMatchObject({
    nextCursor: null,
    jobs: [{ type: "email.welcome", state: "queued" }],
  });
  expect(none.json()).toEqual({ jobs: [], nextCursor: null });
});

test("one job is shown with its payload, failures and audit", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const [id = ""] = await enqueueFailed(
    database,
    1,
    "no such \u001b[31mcustomer at amqp://me:canary-pa55word@host",
  );
  await runCli(["jobs", "retry", id, "--reason", "customer was added"], env);

  const people = await runCli(["jobs", "show", id], env);
  const programs = await runCli(["jobs", "show", id, "--json"], env);
  const unknown = await runCli(["jobs", "show", randomUUID()], env);

  expect(people.stdout).toMatch(/payload +\{"n": ?\d\}/);
  expect(people.stdout).toContain("attempt 1 failed");
  expect(people.stdout).toMatch(/retry by cli:?\S*: customer was added/);
  expect(people.stdout).not.toMatch(/canary|\u001b/);
  expect(programs.json()).toMatchObject({
    id,
    failures: [{ failureClass: "validation" }],
    audit: [{ action: "retry" }],
  });
  expect(unknown.code).toBe(1);
  expect(unknown.stderr).toMatch(/Cannot find job .* Check the id and the schema/);
});

test("cancelling needs --yes where nobody can be asked, and reports each job", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const [first = "", second = ""] = await enqueue(database, "email.welcome", 2);

  const asked = await runCli(["jobs", "cancel", first], env);
  const done = await runCli(["jobs", "cancel", first, "--yes"], env);
  const partly = await runCli(["jobs", "cancel", first, second, "--yes", "--json"], env);
  const states = await database.rows("select distinct state from waybill.job");

  expect(asked.code).toBe(2);
  expect(asked.stderr).toMatch(/--yes: is needed where no terminal can answer: Cancel job/);
  expect(done.code).toBe(0);
  expect(done.stdout).toBe(`${first} cancelled`);
  expect(partly.code).toBe(3);
  expect(partly.json()).toMatchObject({
    done: 1,
    failed: 1,
    results: [
      { id: first, ok: false },
      { id: second, ok: true, action: "cancelled" },
    ],
  });
  expect(states).toEqual([{ state: "cancelled" }]);
});

test("retry runs a failed job again and lets a parked message go, and refuses all else", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const [failed = ""] = await enqueueFailed(database, 1, "no such customer");
  const [queued = ""] = await enqueue(database, "email.welcome");
  const parked = randomUUID();
  await database.rows(
    `insert into waybill.timer (id, queue, kind, fire_at, reason, type, payload) values ($1, '', 'event', 'infinity', 'unroutable', 'order.created', '{}')`,
    [parked],
  );

  const retried = await runCli(["jobs", "retry", failed], env);
  const released = await runCli(["jobs", "retry", parked], env);
  const refused = await runCli(["jobs", "retry", queued], env);

  expect(retried.stdout).toBe(`${failed} retried`);
  expect(released.stdout).toBe(`${parked} released`);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/only a failed job can be retried/);
  expect(
    await database.rows("select fire_at <= now() as due from waybill.timer where id = $1", [
      parked,
    ]),
  ).toEqual([{ due: true }]);
});

test("dead letters are listed and retried by filter, after a dry run", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  await enqueueFailed(database, 2, "no such customer");
  await enqueueFailed(database, 1, "quota is used up");

  const list = await runCli(["dead", "list", "--json"], env);
  const people = await runCli(["dead", "list", "--queue", "emails"], env);
  const letters = list.json()["deadLetters"] as { fingerprint: string; message: string }[];
  const fingerprint =
    letters.find(({ message }) => message === "no such customer")?.fingerprint ?? "";
  const dryRun = await runCli(
    ["dead", "retry", "--fingerprint", fingerprint, "--dry-run", "--json"],
    env,
  );
  const unasked = await runCli(["dead", "retry", "--fingerprint", fingerprint], env);
  const choiceless = await runCli(["dead", "retry", "--yes"], env);
  const retried = await runCli(
    ["dead", "retry", "--fingerprint", fingerprint, "--yes", "--json"],
    env,
  );
  const left = await runCli(["dead", "list", "--json"], env);

  expect(letters).toHaveLength(3);
  expect(people.stdout).toContain("no such customer");
  expect(dryRun.json()).toMatchObject({ dryRun: true, more: false });
  expect(dryRun.json()["deadLetters"]).toHaveLength(2);
  expect(unasked.code).toBe(2);
  expect(choiceless.code).toBe(2);
  expect(retried.code).toBe(0);
  expect(retried.json()).toMatchObject({ done: 2, failed: 0 });
  expect(left.json()["deadLetters"]).toMatchObject([{ message: "quota is used up" }]);
});

test("migrating is a dry run first, then done, then nothing to do", async () => {
  await using database = await createTestDatabase();
  const env = { DATABASE_URL: database.url, WAYBILL_SCHEMA: "shop_jobs" };

  const dryRun = await runCli(["migrate", "--dry-run", "--json"], env);
  const done = await runCli(["migrate", "--json"], env);
  const again = await runCli(["migrate"], env);

  expect(dryRun.json()).toMatchObject({ schema: "shop_jobs", dryRun: true, from: 0 });
  expect(done.json()["migrations"]).toEqual(dryRun.json()["migrations"]);
  expect(again.code).toBe(0);
  expect(again.stdout).toBe("");
  expect(again.stderr).toMatch(/"shop_jobs" is up to date/);
});

test("a schema that is newer than the packages is refused with the remedy", async () => {
  await using database = await createMigratedDatabase();
  await database.rows(
    `insert into waybill.migration (version, name, hash) values (999, 'future', repeat('0', 64))`,
  );

  const result = await runCli(["jobs", "list"], { DATABASE_URL: database.url });
  const migrated = await runCli(["migrate"], { DATABASE_URL: database.url });

  expect([result.code, migrated.code]).toEqual([1, 1]);
  expect(result.stderr).toMatch(/it has version 999.*Upgrade the @waybill packages/);
  expect(migrated.stderr).toMatch(/Upgrade the @waybill packages/);
});
