import { randomUUID } from "node:crypto";
import { ConfigError, InvalidTransitionError, newJobId } from "@waybill/core";
import { createWorkers, type Workers } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { type Application, setInbox, startApplication } from "./application.ts";

const workersOf = (app: Application): Workers<PoolClient> =>
  createWorkers({ database: app.database, actor: "tester" });

interface Given {
  readonly queues?: readonly string[];
  readonly lease?: string;
  readonly lockKey?: string;
  readonly started?: string;
}

/** A worker's row as its presence leaves it. */
async function addWorker({ pool }: Application, name: string, given: Given = {}): Promise<string> {
  const id = randomUUID();
  await pool.query(
    `insert into waybill.worker (id, name, host, pid, version, queues, lock_key, lease_until, started_at,
       running, heartbeat_ms, hold_ms, finished_jobs, rss_bytes, blocked_ms, blocked_by)
     values ($1, $2, 'host-1', 42, '1.2.3', $3, $4, now() + $5::interval, now() - $6::interval,
       2, 5000, 600000, 17, 104857600, 1200, 'email.welcome')`,
    [
      id,
      name,
      given.queues ?? ["emails"],
      given.lockKey ?? null,
      given.lease ?? "1 minute",
      given.started ?? "1 hour",
    ],
  );
  return id;
}

const audits = (app: Application): Promise<Record<string, unknown>[]> =>
  app.db.rows("select actor, action, id, detail from waybill.audit_log order by audit_id");

test("a worker's record holds what it says of itself, with ages by the database's clock", async () => {
  await using app = await startApplication();
  const id = await addWorker(app, "worker-1", { queues: ["emails", "letters"] });
  await app.pool.query(
    "update waybill.worker set heartbeat_at = now() - interval '10 seconds' where id = $1",
    [id],
  );

  const [worker] = await workersOf(app).list();

  expect(worker).toMatchObject({
    id,
    name: "worker-1",
    host: "host-1",
    pid: 42,
    version: "1.2.3",
    alive: true,
    state: "running",
    stopRequested: null,
    queues: ["emails", "letters"],
    running: 2,
    finishedJobs: 17,
    rssBytes: 104_857_600,
    holdMs: 600_000,
    heartbeatMs: 5_000,
    blockedMs: 1_200,
    blockedBy: "email.welcome",
    ownedJobs: null,
  });
  expect(worker?.heartbeatAgeMs).toBeGreaterThanOrEqual(10_000);
  expect(worker?.leaseLeftMs).toBeGreaterThan(0);
  expect(worker?.startedAt).toBeInstanceOf(Date);
});

test("dead workers are listed where they are asked for, with the running jobs that they still own", async () => {
  await using app = await startApplication();
  const alive = await addWorker(app, "alive");
  const expired = await addWorker(app, "expired", { lease: "-1 second", started: "3 hours" });
  // Its lease runs, but nobody holds its lock any more.
  const killed = await addWorker(app, "killed", { lockKey: "77", started: "2 hours" });
  const [first, second, ended] = [newJobId(), newJobId(), newJobId()];
  for (const id of [first, second]) await setInbox(app, id, "running");
  await setInbox(app, ended, "succeeded");
  await app.pool.query("update waybill.inbox set owner = $1", [expired]);

  const listed = await workersOf(app).list();
  const all = await workersOf(app).list({ dead: true, ownedJobs: true });

  expect(listed.map(({ id }) => id)).toEqual([alive]);
  expect(all.map(({ id, alive: lives, ownedJobs }) => [id, lives, ownedJobs])).toEqual([
    [alive, true, null],
    [expired, false, 2],
    [killed, false, 0],
  ]);
});

test("a drain is asked of the workers named, and of no others, and leaves an audit row for each", async () => {
  await using app = await startApplication();
  const workers = workersOf(app);
  const one = await addWorker(app, "worker-1", { started: "3 hours" });
  const twin = await addWorker(app, "worker-1", { started: "2 hours" });
  const byId = await addWorker(app, "worker-2", { started: "1 hour" });
  await addWorker(app, "worker-3");

  const asked = await workers.drain(
    { workers: ["worker-1", byId.slice(0, 8).toUpperCase()] },
    { reason: "deploy 7", actor: "anna" },
  );

  expect(
    asked.map(({ id, stopRequested, stopRequestedBy }) => [id, stopRequested, stopRequestedBy]),
  ).toEqual([
    [one, "drain", "anna"],
    [twin, "drain", "anna"],
    [byId, "drain", "anna"],
  ]);
  expect(asked[0]?.stopRequestedAt).toBeInstanceOf(Date);
  expect((await workers.list()).filter(({ stopRequested }) => stopRequested === null)).toHaveLength(
    1,
  );
  expect(await audits(app)).toEqual(
    expect.arrayContaining(
      [
        ["worker-1", one],
        ["worker-1", twin],
        ["worker-2", byId],
      ].map(([name, id]) => ({
        actor: "anna",
        action: "drain",
        id: null,
        detail: `${name} (${id}): deploy 7`,
      })),
    ),
  );
});

test("a queue chooses the workers that consume it, and all chooses the living ones", async () => {
  await using app = await startApplication();
  const workers = workersOf(app);
  const both = await addWorker(app, "worker-1", { queues: ["emails", "letters"] });
  const emails = await addWorker(app, "worker-2");
  await addWorker(app, "gone", { lease: "-1 second" });

  const ofQueue = await workers.drain({ queue: "letters" });
  const ofBoth = await workers.select({ queue: "emails", workers: ["worker-2"] });
  const all = await workers.drain({ all: true });

  expect(ofQueue.map(({ id }) => id)).toEqual([both]);
  expect(ofBoth.map(({ id }) => id)).toEqual([emails]);
  expect(all.map(({ id }) => id).sort()).toEqual([both, emails].sort());
});

test("a restart stands over a drain, and no drain takes it back", async () => {
  await using app = await startApplication();
  const workers = workersOf(app);
  await addWorker(app, "worker-1");
  const act = async (request: "drain" | "restart", actor: string): Promise<unknown> => {
    const [worker] = await workers[request]({ workers: ["worker-1"] }, { actor });
    return [worker?.stopRequested, worker?.stopRequestedBy];
  };

  expect(await act("drain", "anna")).toEqual(["drain", "anna"]);
  expect(await act("drain", "bert")).toEqual(["drain", "anna"]);
  expect(await act("restart", "carl")).toEqual(["restart", "carl"]);
  expect(await act("drain", "anna")).toEqual(["restart", "carl"]);
  expect((await audits(app)).map(({ action }) => action)).toEqual([
    "drain",
    "drain",
    "restart",
    "drain",
  ]);
});

test("a name, id or queue of no living worker is refused with the known ones, and nobody is asked", async () => {
  await using app = await startApplication();
  const workers = workersOf(app);
  await addWorker(app, "worker-1");
  const gone = await addWorker(app, "gone", { lease: "-1 second" });

  const cases: readonly (readonly [Parameters<typeof workers.drain>[0], RegExp])[] = [
    [{ workers: ["worker-1", "wroker-1"] }, /"wroker-1" is no living worker.*alive are worker-1/],
    [{ workers: [gone] }, /is no living worker/],
    [{ workers: [""] }, /must be an array of names or ids/],
    // Too short to name one on purpose.
    [{ workers: ["0"] }, /is no living worker/],
    [{ queue: "parcels" }, /no living worker consumes "parcels"; consumed are emails/],
    [{}, /all: is needed where neither/],
    [{ workers: ["worker-1"], all: true }, /does not go together/],
  ];
  for (const [selector, message] of cases) {
    const refused = workers.restart(selector);
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
  }

  expect(await audits(app)).toEqual([]);
  expect((await workers.list())[0]?.stopRequested).toBeNull();
});

test("a request that is rolled back was never made", async () => {
  await using app = await startApplication();
  const workers = workersOf(app);
  await addWorker(app, "worker-1");

  await app.database
    .transaction(async (tx) => {
      expect((await workers.drain({ all: true }, { tx }))[0]?.stopRequested).toBe("drain");
      throw new Error("no");
    })
    .catch(() => undefined);

  expect((await workers.list())[0]?.stopRequested).toBeNull();
  expect(await audits(app)).toEqual([]);
});

test("the lease of a running job is no parked message, so it cannot be released", async () => {
  await using app = await startApplication();
  const owner = await addWorker(app, "worker-1");
  const id = newJobId();
  await setInbox(app, id, "running");
  await app.pool.query(
    `insert into waybill.timer (id, queue, kind, dispatch, fire_at, reason, owner, type, payload)
     values ($1, 'tests', 'job', 2, 'infinity', 'lease', $2, 'test.any', '1')`,
    [id, owner],
  );

  await expect(app.jobs.release(id)).rejects.toBeInstanceOf(InvalidTransitionError);

  expect(await app.count("waybill.timer where fire_at = 'infinity' and reason = 'lease'")).toBe(1);
});
