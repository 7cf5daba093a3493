import { ConfigError, JobNotFoundError, newJobId } from "@waybill/core";
import { createQueues, type JobExplanation } from "@waybill/postgres";
import { expect, test } from "vitest";
import { addWorker } from "../support/worker-row.ts";
import { anyJob, type Application, setInbox, startApplication } from "./application.ts";
import { isRelayed, setBacklog, setRetry, setSlot } from "./flow.ts";

const enqueue = (app: Application, options = {}): Promise<string> =>
  app.outbox
    .enqueue(app.pool, anyJob, 1, { autocommit: true, ...options })
    .then((receipt) => receipt.jobId);

const heldBy = ({ heldBy: gate }: JobExplanation): string =>
  gate === null ? "nothing" : `${gate.gate}: ${gate.detail}`;

const detailOf = ({ gates }: JobExplanation, name: string): string | undefined =>
  gates.find(({ gate }) => gate === name)?.detail;

/** What the relay has read and keeps back in a queue with an order. */
async function startGoverned(): Promise<Application> {
  const app = await startApplication();
  await app.pool.query(
    `insert into waybill.queue (name, declared) values ('tests', '{"order":{},"concurrency":2}')`,
  );
  await addWorker(app.db, "worker-1", { queues: ["tests"] });
  return app;
}

test("a job is explained from its commit to its end, at each place by what keeps it there", async () => {
  await using app = await startGoverned();
  await isRelayed(app);
  const before = await enqueue(app);
  const id = await enqueue(app, { concurrencyKey: "acme" });
  const explain = async (): Promise<string> => heldBy(await app.jobs.explain(id));

  const unread = await explain();
  await isRelayed(app);
  await setBacklog(app, before);
  await setBacklog(app, id);
  const inTurn = await explain();
  const queues = createQueues({ database: app.database, actor: "anna" });
  await queues.pause({ queue: "tests", type: "test.any" }, { reason: "wrong" });
  const paused = await explain();
  await queues.resume({ queue: "tests", type: "test.any" });
  await app.pool.query("delete from waybill.backlog where id = $1", [id]);
  await setSlot(app, id);
  const dispatched = await explain();
  await setInbox(app, id, "running");
  await app.pool.query(
    "update waybill.inbox set owner = (select id from waybill.worker) where id = $1",
    [id],
  );
  const running = await explain();
  await setInbox(app, id, "succeeded");
  const ended = await explain();

  expect(unread).toMatch(/^relayed: no relay leads, 1 rows before it$/);
  expect(inTurn).toBe("turn: 1 of its lane go before it, 2 jobs wait in the queue");
  expect(paused).toMatch(/^type_paused: type test\.any is paused since \S+Z by anna: wrong$/);
  expect(dispatched).toMatch(/^delivery: it was dispatched at \S+Z, for a worker to take$/);
  expect(running).toMatch(/^running: attempt 1 runs on worker-1 since \S+Z$/);
  expect(ended).toMatch(/^ended: ended as succeeded at \S+Z$/);
});

test("limits are counted over the slots of others, by queue, type and key", async () => {
  await using app = await startGoverned();
  const queues = createQueues({ database: app.database });
  await queues.set("tests", {
    concurrency: 3,
    keys: { concurrency: 2, tiers: { gold: { concurrency: 1 } } },
    types: { "test.any": { concurrency: 3 } },
  });
  await queues.setTier({ queue: "tests", key: "acme", tier: "gold" });
  const slots = [await enqueue(app), await enqueue(app), await enqueue(app)];
  const id = await enqueue(app);
  await isRelayed(app);
  for (const slot of slots) await setSlot(app, slot, { key: slot === slots[0] ? "acme" : "" });
  await app.pool.query("update waybill.slot set waiting = true where id = $1", [slots[2]]);
  await app.pool.query("update waybill.slot set type = 'test.other' where id = $1", [slots[1]]);
  await setBacklog(app, id, "acme");

  const explained = await app.jobs.explain(id);

  expect(detailOf(explained, "queue_limit")).toBe("queue tests: 2 of 3 in use");
  expect(detailOf(explained, "type_limit")).toBe("type test.any: 1 of 3 in use");
  expect(heldBy(explained)).toBe("key_limit: key acme: 1 of 1 in use");
});

test("a breaker that the queue or the type depends on holds, and another one does not", async () => {
  await using app = await startGoverned();
  await app.pool.query(
    `insert into waybill.dependency (name, state, reason, probe_at)
     values ('pay-api', 'open', 'down', '2099-01-01T00:00Z'), ('mail-api', 'closed', null, null), ('other', 'open', null, null)`,
  );
  const queues = createQueues({ database: app.database });
  await queues.set("tests", {
    dependsOn: ["mail-api"],
    types: { "test.any": { dependsOn: ["pay-api"] } },
  });
  const id = await enqueue(app);
  await isRelayed(app);
  await setBacklog(app, id);

  const explained = await app.jobs.explain(id);

  expect(heldBy(explained)).toBe(
    "breaker: breaker pay-api is open until 2099-01-01T00:00:00.000Z: down",
  );
  expect(explained.gates.filter(({ gate }) => gate === "breaker")).toHaveLength(2);
});

test("a blocked key is listed with its head, the reason and what waits behind it, until the head is freed", async () => {
  await using app = await startGoverned();
  const head = await enqueue(app, { orderingKey: "k1" });
  const running = await enqueue(app, { orderingKey: "k2" });
  const alone = await enqueue(app, { orderingKey: "k3" });
  const behind = [];
  for (const orderingKey of ["k1", "k1", "k2"]) behind.push(await enqueue(app, { orderingKey }));
  await isRelayed(app);
  for (const id of [head, running, alone]) await setSlot(app, id, { waiting: id === head });
  for (const id of behind) await setBacklog(app, id);
  await setRetry(app, head);
  await setInbox(app, running, "running");

  const blocked = await app.jobs.blocked();
  const second = await app.jobs.explain(behind[1] ?? "");
  await app.jobs.release(head);
  await app.pool.query("delete from waybill.timer");
  await createQueues({ database: app.database }).pause({ queue: "tests" });
  const due = await app.jobs.blocked({ queue: "tests", limit: 1 });
  await createQueues({ database: app.database }).resume({ queue: "tests" });
  const inTurn = await app.jobs.blocked();

  expect(blocked).toMatchObject([
    {
      queue: "tests",
      orderingKey: "k1",
      jobId: head,
      reason: "retry",
      detail: expect.stringMatching(/^waits for its retry until \S+Z after: no luck$/),
      retryAt: expect.any(Date),
      jobs: 2,
    },
    { orderingKey: "k2", jobId: running, reason: "running", retryAt: null, jobs: 1 },
  ]);
  expect(heldBy(second)).toMatch(
    new RegExp(`^order: behind job ${head} of ordering key k1, which waits for its retry until`),
  );
  expect(due).toMatchObject([
    { orderingKey: "k1", reason: "paused", detail: "its queue is paused" },
  ]);
  expect(inTurn).toMatchObject([{ reason: "due" }, { reason: "running" }]);
  expect(await app.jobs.blocked({ queue: "letters" })).toEqual([]);
});

test("a job of a pass-through queue without a worker is held by that", async () => {
  await using app = await startApplication();
  const id = await enqueue(app);
  const delayed = await enqueue(app, { delayMs: 60_000 });
  await isRelayed(app);

  const explained = await app.jobs.explain(id);

  expect(explained).toMatchObject({ id, queue: "tests", state: "queued", governed: false });
  expect(heldBy(explained)).toBe("workers: no living worker consumes queue tests");
  expect(heldBy(await app.jobs.explain(delayed))).toMatch(/^delay: delayed until \S+Z$/);
});

test("a job that is not committed is found in its own transaction alone", async () => {
  await using app = await startApplication();

  const undone = app.database.transaction(async (tx) => {
    const { jobId } = await app.outbox.enqueue(tx, anyJob, 1);
    await expect(app.jobs.explain(jobId)).rejects.toBeInstanceOf(JobNotFoundError);
    expect((await app.jobs.explain(jobId, { tx })).heldBy?.gate).toBe("relayed");
    throw new Error("undo");
  });

  await expect(undone).rejects.toThrow("undo");
  await expect(app.jobs.explain(newJobId())).rejects.toBeInstanceOf(JobNotFoundError);
  await expect(app.jobs.blocked({ limit: 0 })).rejects.toBeInstanceOf(ConfigError);
});
