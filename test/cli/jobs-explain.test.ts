import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { createMigratedDatabase, type TestDatabase } from "../support/index.ts";
import { addWorker } from "../support/worker-row.ts";
import { runCli } from "./support.ts";

/** Two jobs of one ordering key: the first waits for its retry, the second for the first. */
async function startBlockedKey(): Promise<{ database: TestDatabase; ids: readonly string[] }> {
  const database = await createMigratedDatabase();
  await addWorker(database, "worker-1");
  const job = { type: "email.welcome", queue: "emails", ordering_key: "order-7", payload: {} };
  const rows = await database.rows<{ id: string }>("select id from waybill.enqueue($1)", [
    JSON.stringify([job, job]),
  ]);
  const ids = rows.map(({ id }) => id);
  for (const text of [
    `insert into waybill.queue (name, declared) values ('emails', '{"order":{}}')`,
    "update waybill.relay set snapshot = pg_current_snapshot()",
    `insert into waybill.slot (id, queue, place, key, ordering_key, type, priority, dispatch, waiting, enqueued_at)
     values ('${ids[0]}', 'emails', 1, '', 'order-7', 'email.welcome', 0, 1, true, now())`,
    `insert into waybill.backlog (id, queue, place, ordering_key, type, enqueued_at)
     values ('${ids[1]}', 'emails', 2, 'order-7', 'email.welcome', now())`,
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch)
     values ('${ids[0]}', 'emails', 'email.welcome', 'retry_waiting', 1, 1)`,
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, detail, type, payload)
     values ('${ids[0]}', 'emails', 2, '2099-01-01T00:00Z', 'retry', 'transient: no luck', 'email.welcome', '{}')`,
  ]) {
    await database.rows(text);
  }
  return { database, ids };
}

test("a job is explained gate by gate, with the one that holds it first", async () => {
  const { database, ids } = await startBlockedKey();
  await using _ = database;
  const env = { DATABASE_URL: database.url };
  const [head = "", id = ""] = ids;

  const people = await runCli(["jobs", "explain", id], env);
  const programs = await runCli(["jobs", "explain", head, "--json"], env);
  const unknown = await runCli(["jobs", "explain", randomUUID()], env);

  expect(people.stdout.split("\n").slice(0, 2)).toEqual([
    `${id} email.welcome in emails (governed): queued`,
    `Held by order: behind job ${head} of ordering key order-7, which waits for its retry until 2099-01-01T00:00:00.000Z: transient: no luck`,
  ]);
  expect(people.stdout).toMatch(/^queue_paused +no +queue emails is not paused$/m);
  expect(programs.json()).toMatchObject({
    id: head,
    state: "retry_waiting",
    heldBy: { gate: "retry" },
  });
  expect(unknown.code).toBe(1);
  expect(unknown.stderr).toMatch(/Cannot find job/);
});

test("blocked keys are listed with what blocks them, and a retry of the first job frees its key", async () => {
  const { database, ids } = await startBlockedKey();
  await using _ = database;
  const env = { DATABASE_URL: database.url };

  const people = await runCli(["jobs", "blocked"], env);
  const freed = await runCli(["jobs", "retry", ids[0] ?? ""], env);
  const programs = await runCli(["jobs", "blocked", "--queue", "letters", "--json"], env);

  expect(people.stdout).toMatch(
    new RegExp(
      `^emails +order-7 +${ids[0]} +\\S+Z +1 +retry +waits for its retry until 2099-`,
      "m",
    ),
  );
  expect(people.stderr).toMatch(/waybill jobs retry <job>/);
  expect(freed.stdout).toBe(`${ids[0]} released`);
  expect(await database.rows("select from waybill.timer where fire_at <= now()")).toHaveLength(1);
  expect(programs.json()).toEqual({ blocked: [] });
});
