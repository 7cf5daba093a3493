import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { createMigratedDatabase, eventually } from "../support/index.ts";
import { runCli, startCli } from "./support.ts";
import { addWorker } from "../support/worker-row.ts";

const past = new Date(0);

test("workers are listed with what they run and what blocks them, dead ones where they are asked for", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const busy = await addWorker(database, "busy", {
    running: 3,
    finished_jobs: 1200,
    rss_bytes: 209_715_200,
    blocked_ms: 12_000,
    blocked_by: "email.\u001b[31mwelcome",
  });
  await addWorker(database, "leaving", { state: "draining", stop_requested: "drain" });
  await addWorker(database, "asked", { stop_requested: "restart", queues: ["letters"] });
  const dead = await addWorker(database, "dead", { lease_until: past });
  await database.rows(
    `insert into waybill.inbox (id, queue, type, state, dispatch, owner) values ($1, 'emails', 'email.welcome', 'running', 1, $2)`,
    [randomUUID(), dead],
  );

  const people = await runCli(["workers"], env);
  const ofQueue = await runCli(["workers", "list", "--queue", "letters", "--json"], env);
  const all = await runCli(["workers", "list", "--all"], env);
  const programs = await runCli(["workers", "list", "--all", "--json"], env);

  expect(people.code).toBe(0);
  const rows = people.stdout.split("\n").map((line) => line.split(/ {2,}/));
  expect(rows[0]?.slice(0, 9)).toEqual([
    "name",
    "id",
    "host",
    "pid",
    "version",
    "state",
    "queues",
    "running",
    "finished",
  ]);
  expect(rows.find(([name]) => name === "busy")).toEqual([
    "busy",
    busy.slice(0, 8),
    "host-1",
    "42",
    "1.2.3",
    "running",
    "emails",
    "3",
    "1200",
    "200 MiB",
    expect.stringMatching(/ ago$/),
    expect.stringMatching(/^\d+ min$/),
    expect.stringMatching(/^12 s by email\.[^\u001b]*welcome$/),
    expect.stringMatching(/^\d{4}-/),
  ]);
  expect(rows.map(([name, , , , , state]) => [name, state])).toEqual(
    expect.arrayContaining([
      ["leaving", "draining"],
      ["asked", "restart requested"],
    ]),
  );
  expect(people.stdout).not.toContain("dead");
  expect(ofQueue.json()["workers"]).toMatchObject([{ name: "asked" }]);
  expect(all.stdout).toMatch(/^dead .* dead +emails +0 +0 +1 /m);
  expect(programs.json()["workers"]).toContainEqual(
    expect.objectContaining({ name: "dead", alive: false, ownedJobs: 1 }),
  );
});

test("draining needs a choice and --yes, says whom it asked, and is written to the audit log", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const id = await addWorker(database, "worker-1");
  await addWorker(database, "worker-2");

  const choiceless = await runCli(["workers", "drain", "--yes"], env);
  const unknown = await runCli(["workers", "drain", "wroker-1", "--yes"], env);
  const unasked = await runCli(["workers", "drain", "worker-1"], env);
  const before = await database.rows("select from waybill.audit_log");
  const done = await runCli(
    ["workers", "drain", id.slice(0, 8), "--reason", "deploy 7", "--yes"],
    env,
  );
  const all = await runCli(["workers", "restart", "--all", "--yes", "--json"], env);

  expect([choiceless.code, unknown.code, unasked.code]).toEqual([2, 2, 2]);
  expect(unknown.stderr).toMatch(/"wroker-1" is no living worker.*alive are worker-1, worker-2/);
  expect(unasked.stderr).toMatch(/--yes: is needed .* Drain worker-1 /);
  expect(before).toEqual([]);
  expect(done.code).toBe(0);
  expect(done.stdout).toBe(`worker-1 ${id.slice(0, 8)} asked to drain`);
  expect(all.json()).toMatchObject({ request: "restart", asked: 2, stopped: 0 });
  expect(
    await database.rows("select name, stop_requested from waybill.worker order by name"),
  ).toEqual([
    { name: "worker-1", stop_requested: "restart" },
    { name: "worker-2", stop_requested: "restart" },
  ]);
  expect(
    await database.rows(
      "select actor, action, detail from waybill.audit_log where action = 'drain'",
    ),
  ).toEqual([
    {
      actor: expect.stringMatching(/^cli/),
      action: "drain",
      detail: `worker-1 (${id}): deploy 7`,
    },
  ]);
});

test("a drain that is waited for ends when every worker is idle, gone or dead, with 3 where one was not", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const idle = await addWorker(database, "idle");
  const gone = await addWorker(database, "gone");
  const crashed = await addWorker(database, "crashed");
  await using drain = await startCli(
    ["workers", "drain", "--all", "--yes", "--wait", "10m", "--json"],
    env,
  );
  await eventually(async () => (await database.rows("select from waybill.audit_log")).length === 3);

  await database.rows("update waybill.worker set state = 'draining' where id = $1", [idle]);
  await database.rows("delete from waybill.worker where id = $1", [gone]);
  await database.rows("update waybill.worker set lease_until = now() where id = $1", [crashed]);
  const { code } = await drain.exited;

  expect(code).toBe(3);
  expect(JSON.parse(drain.stdout.join(""))).toMatchObject({ asked: 3, stopped: 2 });
  const { workers } = JSON.parse(drain.stdout.join("")) as {
    workers: { name: string; outcome: string }[];
  };
  expect(workers.map(({ name, outcome }) => [name, outcome])).toEqual([
    ["idle", "drained"],
    ["gone", "ended"],
    ["crashed", "died"],
  ]);
});

test("a worker that is to restart has stopped when its row is gone, not when it is idle", async () => {
  await using database = await createMigratedDatabase();
  const env = { DATABASE_URL: database.url };
  const id = await addWorker(database, "worker-1", { state: "draining" });

  const early = await runCli(["workers", "restart", "worker-1", "--yes", "--wait", "1ms"], env);
  await using restart = await startCli(
    ["workers", "drain", "worker-1", "--yes", "--wait", "10m"],
    env,
  );
  await restart.waitForLine("was asked to restart before, which stands");
  await database.rows("delete from waybill.worker");

  expect(early.code).toBe(3);
  expect(early.stdout.split("\n")).toEqual([
    `worker-1 ${id.slice(0, 8)} asked to restart`,
    `worker-1 ${id.slice(0, 8)} is idle and has not ended yet`,
  ]);
  expect((await restart.exited).code).toBe(0);
  expect(restart.stdout.at(-1)).toBe(`worker-1 ${id.slice(0, 8)} ended`);
});
