/** What ended jobs hold can be erased, and then it is nowhere in the database. */

import { randomBytes } from "node:crypto";
import { createJobs, type EnqueueOptions, pgDatabase } from "@waybill/postgres";
import { createManagementClient, names } from "@waybill/rabbitmq";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { runCli } from "../cli/support.ts";
import { eventually } from "../support/index.ts";
import { type Line, startLine } from "../support/line.ts";
import { booked, busyWorker, doomed, exported, follow, ordered } from "./support/busy-worker.ts";

/** Every row of every table of Waybill that holds the text in any column, as "table: row". */
async function rowsWith(line: Line, text: string): Promise<readonly string[]> {
  const tables = await line.database.rows<{ name: string }>(
    `select c.oid::regclass::text as name from pg_class as c
     where c.relnamespace = 'waybill'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition`,
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await line.database.rows<{ row: string }>(
      `select x::text as row from ${name} as x where position($1 in x::text) > 0`,
      [text],
    );
    found.push(...rows.map(({ row }) => `${name}: ${row}`));
  }
  return found;
}

/** Runs a worker of the line until the end of the test. */
function runWorker(line: Line): { stop(): Promise<void> } {
  const worker = busyWorker({
    database: pgDatabase<PoolClient>(line.database.pool),
    databaseUrl: line.database.url,
    brokerUrl: line.vhost.url,
    schema: "waybill",
    topology: "assert",
    effect: async () => undefined,
    follow: async () => undefined,
  });
  const stop = new AbortController();
  const running = worker.run({ signal: stop.signal });
  running.catch(() => undefined);
  return {
    async stop() {
      stop.abort();
      await running;
    },
  };
}

const statesOf = async (line: Line, id: string): Promise<readonly string[]> =>
  (
    await line.database.rows<{ state: string }>("select state from waybill.inbox where id = $1", [
      id,
    ])
  ).map(({ state }) => state);

const published = async (line: Line): Promise<boolean> =>
  (
    await line.database.rows(
      `select from waybill.outbox as o cross join waybill.relay as r
       where not coalesce(pg_visible_in_snapshot(o.tx, r.snapshot), false)`,
    )
  ).length === 0;

test("S23: a job that succeeded after a failure, one that failed, one that was cancelled, and a delivery that failed leave nothing of their content anywhere", async () => {
  await using line = await startLine();
  const marker = `canary-${randomBytes(8).toString("hex")}`;
  const options: EnqueueOptions = {
    headers: { trace: marker },
    correlationId: marker,
    orderingKey: marker,
    concurrencyKey: marker,
  };
  const worker = runWorker(line);
  line.startRelay();
  const ids = await line.transaction(async (tx) => {
    const note = { note: marker };
    const { jobId: done } = await line.outbox.enqueue(tx, exported, note, options);
    const { jobId: failed } = await line.outbox.enqueue(tx, doomed, note, options);
    const { jobId: event } = await line.outbox.publish(tx, ordered, note, {
      headers: { trace: marker },
      correlationId: marker,
    });
    const { jobId: cancelled } = await line.outbox.enqueue(tx, follow, note, {
      ...options,
      delayMs: 3_600_000,
    });
    return { done, failed, event, cancelled };
  });
  await line.jobs.cancel(ids.cancelled, { reason: `${marker} asked for it` });
  await eventually(
    async () => {
      expect(await statesOf(line, ids.done)).toEqual(["succeeded"]);
      expect(await statesOf(line, ids.failed)).toEqual(["failed"]);
      expect(await statesOf(line, ids.event)).toEqual(["failed"]);
      const ends = await line.database.rows(
        "select from waybill.inbox where queue = 'mailer' and state = 'succeeded'",
      );
      expect(ends).toHaveLength(1);
      expect(await published(line)).toBe(true);
    },
    { deadlineMs: 60_000 },
  );
  const tables = new Set((await rowsWith(line, marker)).map((row) => row.split(":")[0]));

  for (const id of Object.values(ids)) {
    await line.jobs.erase(id, { reason: "asked by the customer" });
  }

  // The test would show nothing where the marker had never been.
  expect(tables).toEqual(
    new Set([
      "waybill.audit_log",
      "waybill.checkpoint",
      "waybill.dead_letter",
      "waybill.failure",
      "waybill.outbox",
      "waybill.progress",
      "waybill.result",
    ]),
  );
  expect(await rowsWith(line, marker)).toEqual([]);
  const kept = await line.jobs.get(ids.done);
  expect(kept).toMatchObject({
    state: "succeeded",
    attempt: 2,
    payload: '"(erased)"',
    headers: {},
    result: null,
    correlationId: null,
    failures: [{ message: "(erased)", stack: null }],
  });
  expect(kept.audit).toMatchObject([
    { action: "erase", actor: "api", detail: "asked by the customer" },
  ]);
  // Again: nothing is left to do, and nothing breaks.
  await line.jobs.erase(ids.done);
  await worker.stop();
});

test("S23: a job that is erased is not run again, neither by a retry nor by its message from the broker's dead-letter queue", async () => {
  await using line = await startLine();
  const worker = runWorker(line);
  line.startRelay();
  const { jobId } = await line.transaction((tx) =>
    line.outbox.enqueue(tx, doomed, { note: "personal" }),
  );
  await eventually(async () => {
    expect(await statesOf(line, jobId)).toEqual(["failed"]);
    expect(await published(line)).toBe(true);
  });

  await line.jobs.erase(jobId);
  const retried = line.jobs.retry(jobId);
  await expect(retried).rejects.toMatchObject({
    code: "WAYBILL_PAYLOAD_UNAVAILABLE",
    message: expect.stringContaining("or was erased"),
  });
  const at = names(line.vhost.prefix);
  const url = new URL(line.vhost.management.url);
  const { username, password } = new URL(line.vhost.url);
  [url.username, url.password] = [username, password];
  const management = createManagementClient({ url: url.href });
  await management.moveMessages(
    line.vhost.name,
    at.deadLetterQueueName("plain"),
    at.queueName("plain"),
  );
  // A job that comes behind it in the queue has run: the moved message was looked at.
  await eventually(
    async () => {
      const { jobId: next } = await line.transaction((tx) =>
        line.outbox.enqueue(tx, follow, { note: "n" }),
      );
      await eventually(async () => expect(await statesOf(line, next)).toEqual(["succeeded"]));
      const queue = (await line.vhost.management.request(
        "GET",
        `/api/queues/${line.vhost.name}/${at.deadLetterQueueName("plain")}`,
      )) as { messages?: number };
      expect(queue.messages).toBe(0);
    },
    { deadlineMs: 60_000 },
  );

  expect(await statesOf(line, jobId)).toEqual(["failed"]);
  expect(await line.jobs.get(jobId)).toMatchObject({ attempt: 1, failures: [{ attempt: 1 }] });
  await worker.stop();
});

test("S23: a retry that waits for an erasure finds the job erased, and the job stays as it is", async () => {
  await using line = await startLine();
  const worker = runWorker(line);
  line.startRelay();
  const { jobId } = await line.transaction((tx) =>
    line.outbox.enqueue(tx, doomed, { note: "personal" }),
  );
  await eventually(async () => expect(await statesOf(line, jobId)).toEqual(["failed"]));
  await worker.stop();

  const retried = await line.transaction(async (tx) => {
    await line.jobs.erase(jobId, { tx });
    const retrying = line.jobs.retry(jobId).then(
      () => "retried",
      (error: unknown) => (error as { code: string }).code,
    );
    await eventually(async () => {
      const waiting = await line.database.rows(
        "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%revived as%' and datname = current_database()",
      );
      expect(waiting).toHaveLength(1);
    });
    return { retrying };
  });

  expect(await retried.retrying).toBe("WAYBILL_PAYLOAD_UNAVAILABLE");
  expect(await statesOf(line, jobId)).toEqual(["failed"]);
});

test("S23: jobs that have not ended are refused, with their state left as it was, and unknown ones are told apart", async () => {
  await using line = await startLine();
  const { queued, delayed } = await line.transaction(async (tx) => ({
    queued: (await line.outbox.enqueue(tx, booked, { note: "a" })).jobId,
    delayed: (await line.outbox.enqueue(tx, booked, { note: "b" }, { delayMs: 3_600_000 })).jobId,
  }));
  const running = (await line.transaction((tx) => line.outbox.enqueue(tx, booked, { note: "c" })))
    .jobId;
  await line.database.rows(
    "insert into waybill.inbox (id, queue, type, state, dispatch, attempt) values ($1, 'plain', 'book', 'running', 1, 1)",
    [running],
  );
  const content = () =>
    line.database.rows(
      "select id, payload from waybill.outbox union all select id, payload from waybill.timer order by id",
    );
  const before = await content();

  for (const id of [queued, delayed, running]) {
    await expect(line.jobs.erase(id)).rejects.toMatchObject({
      code: "WAYBILL_INVALID_TRANSITION",
      message: expect.stringMatching(/Cancel it, or wait for its end/),
    });
  }
  await expect(line.jobs.erase("01890000-0000-7000-8000-000000000000")).rejects.toMatchObject({
    code: "WAYBILL_JOB_NOT_FOUND",
  });
  await expect(line.jobs.erase("no id")).rejects.toMatchObject({ code: "WAYBILL_JOB_NOT_FOUND" });

  expect(await content()).toEqual(before);
  expect(await line.database.rows("select from waybill.audit_log")).toEqual([]);
});

test("S23: while the event of its end is still on its way, a job is not erased", async () => {
  await using line = await startLine();
  const { jobId } = await line.transaction((tx) =>
    line.outbox.enqueue(tx, exported, { note: "secret" }, { delayMs: 3_600_000 }),
  );
  await line.jobs.cancel(jobId);

  await expect(line.jobs.erase(jobId)).rejects.toMatchObject({
    code: "WAYBILL_INVALID_TRANSITION",
  });
  line.startRelay();
  await eventually(() => line.jobs.erase(jobId));

  expect(await rowsWith(line, "secret")).toEqual([]);
});

test("S23: the command erases by id, key, correlation id and age, says what it would do, and asks first", async () => {
  await using line = await startLine();
  const env = { DATABASE_URL: line.database.url };
  const enqueue = (options: EnqueueOptions): Promise<string> =>
    line.transaction(async (tx) => {
      const { jobId } = await line.outbox.enqueue(
        tx,
        booked,
        { note: "personal" },
        {
          ...options,
          delayMs: 3_600_000,
        },
      );
      return jobId;
    });
  const ada = await enqueue({ concurrencyKey: "ada" });
  const adaLive = await enqueue({ concurrencyKey: "ada" });
  const order = await enqueue({ correlationId: "order-7" });
  const old = await enqueue({});
  const young = await enqueue({});
  // Ended, with their envelopes kept in the outbox.
  await line.database.rows("update waybill.timer set fire_at = now() where id <> $1", [adaLive]);
  line.startRelay();
  await eventually(async () => {
    const left = await line.database.rows("select from waybill.timer");
    expect(left).toHaveLength(1);
  });
  for (const id of [ada, order, old, young]) await line.jobs.cancel(id);
  await line.database.rows(
    "update waybill.inbox set finished_at = now() - interval '40 days' where id = $1",
    [old],
  );

  const aimless = await runCli(["jobs", "erase", "--yes"], env);
  const both = await runCli(["jobs", "erase", old, "--key", "ada", "--yes"], env);
  const asked = await runCli(["jobs", "erase", "--key", "ada"], env);
  const dry = await runCli(["jobs", "erase", "--key", "ada", "--dry-run", "--json"], env);
  const untouched = await rowsWith(line, "personal");
  const byKey = await runCli(
    ["jobs", "erase", "--key", "ada", "--yes", "--reason", "request 12"],
    env,
  );
  const byCorrelation = await runCli(
    ["jobs", "erase", "--correlation-id", "order-7", "--yes", "--json"],
    env,
  );
  const byAge = await runCli(["jobs", "erase", "--older-than", "30d", "--yes"], env);
  const again = await runCli(["jobs", "erase", "--older-than", "30d", "--yes"], env);
  const live = await runCli(["jobs", "erase", adaLive, young, "--yes"], env);

  expect([aimless.code, both.code, asked.code]).toEqual([2, 2, 2]);
  expect(aimless.stderr).toMatch(/name ids, or choose with/);
  expect(asked.stderr).toMatch(/--yes: is needed .* Erase what 1 jobs hold\?/);
  expect(dry.json()).toMatchObject({ dryRun: true, jobs: [{ id: ada, state: "cancelled" }] });
  expect(untouched).toHaveLength(5);
  expect(byKey).toMatchObject({ code: 0, stdout: `${ada} erased` });
  expect(byKey.stderr).toMatch(/broker's dead-letter queues are not reached/);
  expect(byCorrelation.json()).toMatchObject({ done: 1, results: [{ id: order }] });
  expect(byAge.stdout).toBe(`${old} erased`);
  expect(again.stderr).toMatch(/No job that has ended/);
  expect(live.code).toBe(3);
  expect(live.stdout).toBe(`${young} erased`);
  expect(live.stderr).toMatch(/Cannot move job .* from unfinished to erased/);
  expect((await rowsWith(line, "personal")).map((row) => row.slice(0, 14))).toEqual([
    "waybill.timer:",
  ]);
  expect(
    await line.database.rows(
      "select id, actor, detail from waybill.audit_log where action = 'erase' and detail is not null",
    ),
  ).toEqual([{ id: ada, actor: expect.stringMatching(/^cli/), detail: "request 12" }]);
});

test("S23: pages of erasable jobs hold each ended job once, newest first", async () => {
  await using line = await startLine();
  const ids: string[] = [];
  for (let n = 0; n < 7; n += 1) {
    const { jobId } = await line.transaction((tx) =>
      line.outbox.enqueue(tx, booked, { note: "x" }),
    );
    await line.jobs.cancel(jobId);
    ids.push(jobId);
  }
  const jobs = createJobs({ database: pgDatabase<PoolClient>(line.database.pool) });

  const seen: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await jobs.listErasable({ limit: 3, cursor, queue: "plain" });
    seen.push(...page.jobs.map(({ id }) => id));
    if (page.nextCursor === null) break;
    cursor = page.nextCursor;
  }

  expect(seen).toEqual(ids.toReversed());
  await expect(jobs.listErasable({ cursor: "nonsense" })).rejects.toMatchObject({
    code: "WAYBILL_CONFIG_INVALID",
  });
  await expect(jobs.listErasable({ limit: 201 })).rejects.toMatchObject({
    code: "WAYBILL_CONFIG_INVALID",
  });
});
