import { expect, test } from "vitest";
import { createMigratedDatabase, type TestDatabase } from "../support/index.ts";
import { addWorker } from "../support/worker-row.ts";
import { runCli } from "./support.ts";

/** One job of each kind that the books tell apart, all published but the last. */
async function startBooks(): Promise<{ database: TestDatabase; ids: readonly string[] }> {
  const database = await createMigratedDatabase();
  const worker = await addWorker(database, "worker-1");
  const rows = await database.rows<{ id: string }>("select id from waybill.enqueue($1)", [
    JSON.stringify(
      Array.from({ length: 7 }, () => ({ type: "email.welcome", queue: "emails", payload: {} })),
    ),
  ]);
  const ids = rows.map(({ id }) => id);
  for (const text of [
    "update waybill.relay set snapshot = pg_current_snapshot(), epoch = 1",
    "insert into waybill.audit (queue, dispatched) values ('emails', 3)",
    `insert into waybill.inbox (id, queue, type, state, dispatch, owner) values
       ('${ids[0]}', 'emails', 'email.welcome', 'succeeded', 1, null),
       ('${ids[1]}', 'emails', 'email.welcome', 'running', 1, '${worker}'),
       ('${ids[2]}', 'emails', 'email.welcome', 'retry_waiting', 1, null)`,
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, detail, type, payload) values
       ('${ids[2]}', 'emails', 2, '2099-01-01T00:00Z', 'retry', 'transient: no luck', 'email.welcome', '{}'),
       ('${ids[3]}', 'emails', 2, '2099-01-01T00:00Z', 'lost', 'the queue is empty', 'email.welcome', '{}')`,
    `insert into waybill.backlog (id, queue, place, type, enqueued_at)
     values ('${ids[4]}', 'emails', 2, 'email.welcome', now())`,
    `insert into waybill.slot (id, queue, place, key, type, priority, dispatch, enqueued_at)
     values ('${ids[5]}', 'emails', 1, '', 'email.welcome', 0, 1, now())`,
    `select waybill.enqueue('[{"type": "email.welcome", "queue": "emails", "payload": {}}]')`,
  ]) {
    await database.rows(text);
  }
  return { database, ids };
}

test("the books of a queue balance, and name what brings each job forward", async () => {
  const { database } = await startBooks();
  await using _ = database;
  const env = { DATABASE_URL: database.url };

  const people = await runCli(["audit"], env);
  const programs = await runCli(["audit", "--queue", "emails", "--json"], env);
  const other = await runCli(["audit", "--queue", "other", "--json"], env);

  expect(people.code).toBe(0);
  const lines = people.stdout.split("\n");
  expect(lines.at(-1)).toBe("unaccounted: 0");
  expect(lines[1]).toMatch(/^emails +8 +4 +3 +1 +0 +3 +/);
  expect(programs.json()).toEqual({
    queues: [
      {
        queue: "emails",
        committed: 8,
        waiting: { unpublished: 1, delay: 0, retry: 1, parked: 0, orphan: 0, lost: 1, backlog: 1 },
        inFlight: { published: 1, dispatched: 1, running: 1, takeover: 0, foreign: 0 },
        ended: { succeeded: 1, failed: 0, cancelled: 0 },
        unaccounted: 0,
        audited: true,
        dispatchedAgain: 3,
      },
    ],
    unaccounted: 0,
  });
  expect(other.json()).toEqual({ queues: [], unaccounted: 0 });
});

test("a job that nothing brings forward is counted, and the exit code is that of a problem found", async () => {
  const { database } = await startBooks();
  await using _ = database;
  const env = { DATABASE_URL: database.url };
  // As if the auditor had passed the one whose message is all there is of it.
  await database.rows("update waybill.audit set since = (select snapshot from waybill.relay)");

  const { code, stdout } = await runCli(["audit"], env);

  expect(code).toBe(4);
  expect(stdout.split("\n").at(-1)).toBe("unaccounted: 1");
});

test("a job that was lost is explained with the time at which it goes again", async () => {
  const { database, ids } = await startBooks();
  await using _ = database;
  const env = { DATABASE_URL: database.url };

  const lost = await runCli(["audit", "--explain", ids[3] ?? ""], env);
  const published = await runCli(["audit", "--explain", ids[6] ?? "", "--json"], env);

  expect(lost.stdout.split("\n")[1]).toBe(
    "Held by lost: the broker has lost it: the queue is empty; it is dispatched again at 2099-01-01T00:00:00.000Z",
  );
  expect(published.json()).toMatchObject({ heldBy: { gate: "delivery" } });
});

test("a reconcile takes what is published and unclaimed for lost, of the queues that it names", async () => {
  const { database } = await startBooks();
  await using _ = database;
  const env = { DATABASE_URL: database.url };

  const asked = await runCli(["reconcile"], env);
  const unknown = await runCli(["reconcile", "--queue", "other", "--yes"], env);
  const before = await database.rows("select from waybill.audit where lost is not null");
  const done = await runCli(["reconcile", "--yes", "--reason", "purged by hand", "--json"], env);

  expect(asked.code).toBe(2);
  expect(unknown.code).toBe(1);
  expect(unknown.stderr).toMatch(/other: no worker of this database has consumed it/);
  expect(before).toEqual([]);
  expect(done.code).toBe(0);
  expect(done.json()).toEqual({ queues: ["emails"], unknown: [] });
  const [place] = await database.rows(
    "select lost::text = (select snapshot::text from waybill.relay) as is_all, lost_why from waybill.audit",
  );
  expect(place).toEqual({ is_all: true, lost_why: "purged by hand" });
  const [log] = await database.rows("select action, queue, detail from waybill.audit_log");
  expect(log).toEqual({ action: "reconcile", queue: "emails", detail: "purged by hand" });
});
