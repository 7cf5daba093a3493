import { ConfigError, JobNotFoundError, type JobState, newJobId } from "@waybill/core";
import type { JobSummary } from "@waybill/postgres";
import { expect, test } from "vitest";
import { anyJob, type Application, setFailed, setInbox, startApplication } from "./application.ts";

const enqueue = (app: Application, payload: unknown, options = {}): Promise<string> =>
  app.outbox
    .enqueue(app.pool, anyJob, payload, { autocommit: true, ...options })
    .then((receipt) => receipt.jobId);

test("get shows a job with payload, history and result", async () => {
  await using app = await startApplication();
  const id = await enqueue(
    app,
    { order: 1 },
    { orderingKey: "o", correlationId: "c", headers: { a: "b" } },
  );
  await setFailed(app, id);

  const job = await app.jobs.get(id.toUpperCase());

  expect(job).toMatchObject({
    id,
    queue: "tests",
    type: "test.any",
    state: "failed",
    relayed: false,
    attempt: 3,
    crashes: 2,
    deaths: 1,
    payload: '{"order":1}',
    headers: { a: "b" },
    orderingKey: "o",
    correlationId: "c",
    failureClass: "unknown",
    failureMessage: "no luck",
    failures: [{ attempt: 3, failureClass: "unknown", terminal: true, fingerprint: "f1" }],
    audit: [],
  });
  expect(job.enqueuedAt).toBeInstanceOf(Date);
  expect(job.finishedAt).toBeInstanceOf(Date);
});

test("get shows a succeeded job's result, a delayed job's time, and a running job's worker", async () => {
  await using app = await startApplication();
  const done = await enqueue(app, 1);
  const delayed = await enqueue(app, 2, { runAt: new Date("2100-01-01") });
  await setInbox(app, done, "succeeded");
  await app.pool.query(
    "insert into waybill.result (id, queue, result) values ($1, 'tests', '{\"n\":1.0}')",
    [done],
  );

  expect(await app.jobs.get(done)).toMatchObject({ state: "succeeded", result: '{"n":1.0}' });
  expect(await app.jobs.get(delayed)).toMatchObject({
    state: "queued",
    waitingFor: "delay",
    nextAt: new Date("2100-01-01"),
    parked: false,
  });
});

test("get shows a running job's progress and newest checkpoint, and whether its worker is alive", async () => {
  await using app = await startApplication();
  const id = await enqueue(app, 1);
  const boot = newJobId();
  await setInbox(app, id, "running");
  await app.pool.query("update waybill.inbox set owner = $1", [boot]);
  await app.pool.query(
    `insert into waybill.worker (id, name, host, pid, version, queues, lease_until)
     values ($1, 'w', 'h', 1, '0', '{tests}', now() + interval '1 hour')`,
    [boot],
  );
  expect(await app.jobs.get(id)).toMatchObject({ stale: false, progress: null, checkpoint: null });

  await app.pool.query(
    `insert into waybill.progress (id, queue, attempt, stage, done, total) values ($1, 'tests', 1, 'counting', 199, 200)`,
    [id],
  );
  await app.pool.query(
    `insert into waybill.checkpoint (id, queue, number, attempt, checkpoint)
     select $1, 'tests', n, 1, '{"n":' || n || '.0}' from generate_series(8, 11) as n`,
    [id],
  );
  await app.pool.query("update waybill.worker set lease_until = now() - interval '1 hour'");

  expect(await app.jobs.get(id)).toMatchObject({
    stale: true,
    progress: { stage: "counting", done: 199, total: 200, percent: 99 },
    checkpoint: { number: 11, attempt: 1, checkpoint: '{"n":11.0}' },
    cancelledBy: null,
    onTerminal: null,
  });
  const [listed] = (await app.jobs.list()).jobs;
  expect(listed).toMatchObject({ stale: true, progress: { stage: "counting", percent: 99 } });
  expect(listed?.progress?.reportedAt).toBeInstanceOf(Date);
});

test("a job that is not there is said to be missing, whatever the id looks like", async () => {
  await using app = await startApplication();

  for (const id of [newJobId(), "7", "", "'; drop table orders; --", "x".repeat(500)]) {
    await expect(app.jobs.get(id)).rejects.toBeInstanceOf(JobNotFoundError);
    await expect(app.jobs.cancel(id)).rejects.toBeInstanceOf(JobNotFoundError);
    await expect(app.jobs.retry(id)).rejects.toBeInstanceOf(JobNotFoundError);
    await expect(app.jobs.release(id)).rejects.toBeInstanceOf(JobNotFoundError);
  }
});

test("the deliveries of one event are told apart by their queue", async () => {
  await using app = await startApplication();
  const id = newJobId();
  await setInbox(app, id, "succeeded", { queue: "billing" });
  await setInbox(app, id, "failed", { queue: "mails" });

  await expect(app.jobs.get(id)).rejects.toThrow(
    /queue: is needed: the id is known in billing, mails/,
  );
  expect((await app.jobs.get(id, { queue: "mails" })).state).toBe("failed");
  expect((await app.jobs.list()).jobs.map((job) => job.queue)).toEqual(["mails", "billing"]);
});

test("pages of any size hold every job once, newest first, while jobs are added", async () => {
  await using app = await startApplication();
  const ids: string[] = [];
  for (let n = 0; n < 30; n += 1) {
    // A third of them has no row in the outbox, a third none in the inbox.
    const id = await enqueue(app, n, n % 3 === 0 ? { delayMs: 60_000 } : {});
    if (n % 3 === 1) await setInbox(app, id, "running");
    ids.push(id);
  }
  for (let n = 0; n < 5; n += 1) {
    const foreign = newJobId();
    await setInbox(app, foreign, "succeeded");
    ids.push(foreign);
  }

  for (const limit of [1, 7, 35, 36, 200]) {
    const seen: JobSummary[] = [];
    let cursor: string | undefined;
    do {
      const page = await app.jobs.list({ limit, cursor });
      expect(page.jobs.length).toBeLessThanOrEqual(limit);
      seen.push(...page.jobs);
      cursor = page.nextCursor ?? undefined;
      if (cursor !== undefined && limit === 7) await enqueue(app, "newer");
    } while (cursor !== undefined);

    expect(seen.map((job) => job.id).filter((id) => ids.includes(id))).toEqual(ids.toReversed());
  }
});

test("list filters by state, queue, type and text, also together", async () => {
  await using app = await startApplication();
  const states: readonly JobState[] = [
    "queued",
    "running",
    "retry_waiting",
    "succeeded",
    "failed",
    "cancelled",
  ];
  const byState = new Map<JobState, string>();
  for (const state of states) {
    const id = await enqueue(app, state, {
      correlationId: `Order-${state}`,
      orderingKey: "Key 5% _",
    });
    byState.set(state, id);
    if (state !== "queued") await setInbox(app, id, state);
  }

  for (const state of states) {
    const { jobs } = await app.jobs.list({ state });
    expect(jobs.map((job) => [job.id, job.state])).toEqual([[byState.get(state), state]]);
  }
  const idsOf = async (filter: object): Promise<number> =>
    (await app.jobs.list(filter)).jobs.length;
  expect(await idsOf({ queue: "tests" })).toBe(6);
  expect(await idsOf({ queue: "other" })).toBe(0);
  expect(await idsOf({ type: "test.any", state: "failed" })).toBe(1);
  expect(await idsOf({ type: "test.none" })).toBe(0);
  expect(await idsOf({ search: "order-RUNNING" })).toBe(1);
  expect(await idsOf({ search: "5% _" })).toBe(6);
  expect(await idsOf({ search: "%" })).toBe(6);
  expect(await idsOf({ search: "%a%" })).toBe(0);
  expect(await idsOf({ search: byState.get("queued")?.slice(-12) })).toBe(1);
});

test("summaries hold no payload, headers or result", async () => {
  await using app = await startApplication();
  await enqueue(app, "secret", { headers: { token: "secret" } });

  expect(JSON.stringify(await app.jobs.list())).not.toContain("secret");
});

test("counts add up by state and queue", async () => {
  await using app = await startApplication();
  for (const state of ["running", "succeeded", "succeeded", "failed"]) {
    await setInbox(app, await enqueue(app, 1), state);
  }
  await enqueue(app, 1);
  await enqueue(app, 1, { delayMs: 60_000 });
  await setInbox(app, newJobId(), "cancelled", { queue: "__proto__" });

  const { total, queues } = await app.jobs.counts();

  expect(total).toEqual({
    queued: 2,
    running: 1,
    retry_waiting: 0,
    succeeded: 2,
    failed: 1,
    cancelled: 1,
  });
  expect(queues["tests"]).toEqual({ ...total, cancelled: 0 });
});

test("dead letters are listed newest first, in pages, by queue, type, class and fingerprint", async () => {
  await using app = await startApplication();
  const ids: string[] = [];
  for (let n = 0; n < 9; n += 1) {
    const id = await enqueue(app, n);
    await setFailed(app, id);
    ids.push(id);
  }
  // All at one instant: the id decides, and a page ends in the middle of it.
  await app.pool.query("update waybill.dead_letter set died_at = '2026-01-02 03:04:05.678901+00'");
  await app.pool.query(
    "update waybill.dead_letter set fingerprint = 'f2', failure_class = 'timeout' where id = $1",
    [ids[4]],
  );

  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await app.jobs.listDeadLetters({ limit: 2, cursor });
    seen.push(...page.deadLetters.map((letter) => letter.id));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);

  expect(seen).toEqual(ids.toReversed());
  const [letter] = (await app.jobs.listDeadLetters({ fingerprint: "f2", failureClass: "timeout" }))
    .deadLetters;
  expect(letter).toMatchObject({ id: ids[4], attempts: 3, message: "no luck", fingerprint: "f2" });
  expect((await app.jobs.listDeadLetters({ queue: "other" })).deadLetters).toEqual([]);
  expect((await app.jobs.listDeadLetters({ type: "test.any" })).deadLetters).toHaveLength(9);
});

test.each([
  ["an unknown filter", { status: "failed" }],
  ["an unknown state", { state: "done" }],
  ["a limit of 0", { limit: 0 }],
  ["a limit of 201", { limit: 201 }],
  ["a limit as a text", { limit: "5" }],
  ["a cursor that is none", { cursor: "abc" }],
  ["a cursor of other parts", { cursor: Buffer.from('["x","y"]').toString("base64url") }],
  [
    "a cursor with SQL",
    { cursor: Buffer.from(`["${newJobId()}","' or 1=1"]`).toString("base64url") },
  ],
  ["a wide search", { search: "x".repeat(256) }],
  ["a NUL in the search", { search: "\u0000" }],
  ["a NUL in the queue", { queue: "a\u0000" }],
])("list refuses %s before any SQL", async (_name, filter) => {
  await using app = await startApplication();

  await expect(app.jobs.list(filter as never)).rejects.toBeInstanceOf(ConfigError);
});

test("reads join the caller's transaction and see what it has written", async () => {
  await using app = await startApplication();

  await app.database.transaction(async (tx) => {
    const { jobId } = await app.outbox.enqueue(tx, anyJob, 1);

    expect((await app.jobs.get(jobId, { tx })).state).toBe("queued");
    expect((await app.jobs.list({ tx })).jobs).toHaveLength(1);
    expect((await app.jobs.counts({ tx })).total.queued).toBe(1);
    expect((await app.jobs.list()).jobs).toHaveLength(0);
  });
});
