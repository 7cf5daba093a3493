/** The whole line, each part of it with the login of its role and no other. */

import { randomUUID } from "node:crypto";
import { silentLogger } from "@waybill/core";
import { createOutbox, pgDatabase } from "@waybill/postgres";
import { createRelay } from "@waybill/relay";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { runCli } from "../cli/support.ts";
import { createTestVhost, eventually, type TestVhost } from "../support/index.ts";
import {
  booked,
  busyWorker,
  doomed,
  exported,
  follow,
  governed,
} from "../security/support/busy-worker.ts";
import { type Part, type RolePlace, startRolePlace } from "../security/support/database-roles.ts";

interface Going extends AsyncDisposable {
  readonly errors: readonly unknown[];
}

/** Runs relay and worker with their roles' logins until the end of the test. */
function runLine(place: RolePlace, vhost: TestVhost): Going {
  const { schema } = place;
  const errors: unknown[] = [];
  const noted = (fields: Record<string, unknown>): void => void errors.push(fields["err"]);
  const logger = { ...silentLogger, child: () => logger, warn: noted, error: noted };
  const stop = new AbortController();
  const outbox = createOutbox({ database: pgDatabase<PoolClient>(place.poolOf("worker")), schema });
  const relay = createRelay({
    databaseUrl: place.urlOf("relay"),
    broker: { url: vhost.url },
    schema,
    logger,
  });
  const worker = busyWorker({
    database: pgDatabase<PoolClient>(place.poolOf("worker")),
    databaseUrl: place.urlOf("worker"),
    brokerUrl: vhost.url,
    schema,
    topology: "assert",
    effect: (tx, id) => tx.query("insert into effect (job_id) values ($1)", [id]),
    follow: (tx) => outbox.enqueue(tx, follow, { note: "then this" }),
  });
  const running = [relay, worker].map((each) =>
    each.run({ signal: stop.signal }).catch((error: unknown) => void errors.push(error)),
  );
  return {
    errors,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all(running);
    },
  };
}

/** Runs a command with a part's login. */
const commandAs =
  (place: RolePlace, vhost: TestVhost) =>
  (part: Part, ...args: string[]) =>
    runCli(args, {
      DATABASE_URL: place.urlOf(part),
      RABBITMQ_URL: vhost.url,
      WAYBILL_SCHEMA: place.schema,
    });

test("S17: with a login for each role the whole line does its work", async () => {
  await using place = await startRolePlace();
  await using vhost = await createTestVhost();
  await place.database.rows("create table effect (job_id uuid)");
  await place.database.rows(`grant insert, select on effect to "${place.schema}_worker"`);
  const { schema } = place;
  const app = pgDatabase<PoolClient>(place.poolOf("app"));
  const outbox = createOutbox({ database: app, schema });
  const statesOf = async (): Promise<Record<string, string>> =>
    Object.fromEntries(
      (
        await place.database.rows<{ key: string; state: string }>(
          place.sql(
            "select type || ' ' || queue as key, string_agg(distinct state, ',' order by state) as state from waybill.inbox group by 1",
          ),
        )
      ).map(({ key, state }) => [key, state]),
    );

  await using line = runLine(place, vhost);
  await eventually(async () => {
    expect(line.errors).toEqual([]);
    expect(await place.database.rows(place.sql("select from waybill.worker"))).toHaveLength(1);
  });
  const note = { note: "x" };
  await app.transaction(async (tx) => {
    const key = randomUUID();
    await outbox.enqueue(tx, booked, note, { idempotencyKey: key });
    await outbox.enqueue(tx, booked, note, { idempotencyKey: key });
    await outbox.enqueue(tx, exported, note);
    await outbox.enqueue(tx, governed, note, { concurrencyKey: "k", orderingKey: "o" });
    await outbox.enqueue(tx, governed, note, { concurrencyKey: "k" });
    await outbox.enqueue(tx, follow, note, { delayMs: 10 });
    await outbox.enqueue(tx, doomed, note);
  });

  await eventually(
    async () =>
      expect(await statesOf()).toEqual({
        "book plain": "succeeded",
        "follow plain": "succeeded",
        "export plain": "succeeded",
        "export.ended mailer": "succeeded",
        "doomed plain": "failed",
        "govern governed": "succeeded",
      }),
    { deadlineMs: 60_000 },
  );
  // The relay has no right on the schema, and makes partitions nevertheless; they are the owner's.
  await eventually(async () => {
    const rows = await place.database.rows<{ kind: string; owner: string }>(
      `select substring(c.relname from '^[a-z]+') as kind, c.relowner::regrole::text as owner
       from pg_class as c
       where c.relnamespace = $1::regnamespace and c.relname ~ '^(outbox|inbox)_[0-9]+$' and c.relkind = 'r'`,
      [schema],
    );
    expect(new Set(rows.map(({ kind }) => kind))).toEqual(new Set(["outbox", "inbox"]));
    expect(new Set(rows.map(({ owner }) => owner))).toEqual(new Set([`${schema}_owner_login`]));
  });
  expect(await place.database.rows("select count(*)::int as n from effect")).toEqual([{ n: 1 }]);

  expect(line.errors).toEqual([]);
});

test("S17: the command does an operator's work with the operator's login, and lets a viewer look and nothing else", async () => {
  await using place = await startRolePlace();
  await using vhost = await createTestVhost();
  await place.database.rows("create table effect (job_id uuid)");
  const app = pgDatabase<PoolClient>(place.poolOf("app"));
  const outbox = createOutbox({ database: app, schema: place.schema });
  await using _line = runLine(place, vhost);
  const note = { note: "x" };
  const failed = (await app.transaction((tx) => outbox.enqueue(tx, doomed, note))).jobId;
  const later = (
    await app.transaction((tx) => outbox.enqueue(tx, follow, note, { delayMs: 3_600_000 }))
  ).jobId;
  await eventually(
    async () => {
      const rows = await place.database.rows(
        place.sql("select from waybill.inbox where state = 'failed'"),
      );
      expect(rows).toHaveLength(1);
    },
    { deadlineMs: 60_000 },
  );

  const as = commandAs(place, vhost);
  for (const part of ["viewer", "operator"] as const) {
    for (const args of [
      ["jobs", "list", "--json"],
      ["dead", "list", "--json"],
      ["queue", "list", "--json"],
      ["queue", "show", "governed", "--json"],
      ["workers", "list", "--all", "--json"],
      ["breaker", "list", "--json"],
      ["breaker", "history", "provider", "--json"],
      ["jobs", "blocked", "--json"],
      ["topology", "check", "--json"],
    ]) {
      const { code, stderr } = await as(part, ...args);
      expect([part, args.join(" "), code, stderr]).toEqual([
        part,
        args.join(" "),
        0,
        expect.any(String),
      ]);
    }
    expect((await as(part, "doctor", "--json")).stderr).not.toMatch(/right/);
  }
  for (const args of [
    ["jobs", "show", failed],
    ["jobs", "explain", later],
    ["jobs", "edit", later, "--payload", '{"note":"y"}', "--no-validate", "--yes"],
    ["jobs", "priority", later, "5"],
    ["jobs", "delay", later, "--for", "2h"],
    ["dead", "retry", failed],
    ["queue", "set", "governed", "--concurrency", "4"],
    ["queue", "pause", "governed", "--reason", "look"],
    ["queue", "pause", "governed", "--key", "k"],
    ["queue", "resume", "governed", "--key", "k"],
    ["queue", "resume", "governed"],
    ["breaker", "open", "provider", "--yes"],
    ["breaker", "close", "provider", "--yes"],
    ["jobs", "cancel", later, "--yes"],
    ["jobs", "erase", later, "--yes"],
    ["workers", "drain", "--all", "--yes"],
  ]) {
    const viewed = await as("viewer", ...args);
    expect([args.join(" "), viewed.code, viewed.stderr]).toEqual([
      args.join(" "),
      1,
      expect.stringMatching(/right/),
    ]);
    const { code, stderr } = await as("operator", ...args);
    expect([args.join(" "), code, stderr]).toEqual([args.join(" "), 0, expect.any(String)]);
  }
  const refused = await as("app", "jobs", "list");
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/no right|lacks a right/),
  });
});

test("S17: a relay and a worker whose login has no role end at once with one error that says so", async () => {
  await using place = await startRolePlace();
  await using vhost = await createTestVhost();
  const env = {
    DATABASE_URL: place.urlOf("app"),
    RABBITMQ_URL: vhost.url,
    WAYBILL_SCHEMA: place.schema,
  };
  const module = new URL("../cli/modules/emails.ts", import.meta.url).pathname;

  const relay = await runCli(["relay", "--no-wait"], env);
  const worker = await runCli(["worker", module, "--no-wait"], env);

  for (const { code, stderr } of [relay, worker]) {
    expect(code).toBe(1);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(stderr).toMatch(/^waybill: Cannot .* right.* docs\/guides\/access\.md/);
  }
});
