import { Readable } from "node:stream";
import { ConfigError, JobNotFoundError, newJobId, SchemaVersionError } from "@waybill/core";
import { createJobs, pgDatabase } from "@waybill/postgres";
import { Client } from "pg";
import { expect, test } from "vitest";
import { createPool, createTestDatabase, eventually } from "../support/index.ts";
import { setFailed, setInbox, startApplication } from "./application.ts";
import {
  enqueue,
  follow,
  listeners,
  listenerTo,
  report,
  succeed,
  tell,
  watchedJobs,
} from "./watching.ts";

test("a watch tells the present state, each change that lasts, and ends with the job", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);

  const { seen, ended } = follow(jobs.watch(id.toUpperCase()));
  await eventually(() => expect(seen.at(-1)).toMatchObject({ id, state: "queued", attempt: 0 }));
  await setInbox(app, id, "running");
  await tell(app, id);
  await eventually(() => expect(seen.at(-1)).toMatchObject({ state: "running", progress: null }));
  await report(app, id, 99);
  await eventually(() => expect(seen.at(-1)?.progress).toMatchObject({ done: 99, percent: 49 }));
  await succeed(app, id, '{"n":1}');

  expect(await ended).toBeUndefined();
  expect(seen.at(-1)).toMatchObject({ state: "succeeded", result: '{"n":1}' });
  expect(seen.filter(({ state }) => state === "succeeded")).toHaveLength(1);
  expect(seen.at(-1)?.finishedAt).toBeInstanceOf(Date);
});

test("a job that has ended before is told once, and nobody is asked to tell of it", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);
  await setFailed(app, id);

  const { seen, ended } = follow(jobs.watch(id));

  expect(await ended).toBeUndefined();
  expect(seen).toMatchObject([{ state: "failed", failureMessage: "no luck" }]);
  expect(await app.count("waybill.watch")).toBe(0);
});

test("changes that are faster than the loop are merged, and the end always comes", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);
  const loop = jobs.watch(id)[Symbol.asyncIterator]();

  expect((await loop.next()).value?.state).toBe("queued");
  await eventually(async () => (await app.count("waybill.watch")) === 1);
  await setInbox(app, id, "running");
  for (let done = 0; done < 20; done += 1) await report(app, id, done);
  await succeed(app, id);
  // It was read to its end while nobody asked for the next one.
  await eventually(async () => (await app.count("waybill.watch")) === 0);

  expect((await loop.next()).value?.state).toBe("succeeded");
  expect(await loop.next()).toEqual({ done: true, value: undefined });
  expect(await loop.next()).toEqual({ done: true, value: undefined });
});

test("leaving the loop takes back the row, and closes the connection that listened", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);

  for await (const { state } of jobs.watch(id)) {
    expect(state).toBe("queued");
    await eventually(async () => (await app.count("waybill.watch")) === 1);
    expect(await listeners(app)).toHaveLength(1);
    break;
  }

  expect(await app.count("waybill.watch")).toBe(0);
  await eventually(async () => (await listeners(app)).length === 0);
});

test("an aborted signal ends the loop with its reason and releases everything", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);
  const stop = new AbortController();

  const { seen, ended } = follow(jobs.watch(id, { signal: stop.signal }));
  await eventually(async () => seen.length > 0 && (await app.count("waybill.watch")) === 1);
  stop.abort(new Error("gone"));

  expect(await ended).toMatchObject({ message: "gone" });
  expect(await app.count("waybill.watch")).toBe(0);
  await eventually(async () => (await listeners(app)).length === 0);
  const late = follow(jobs.watch(id, { signal: stop.signal }));
  expect(await late.ended).toMatchObject({ message: "gone" });
  expect(late.seen).toEqual([]);
});

test("a stream made of a watch is destroyed while it waits, and releases it", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);
  const stream = Readable.from(jobs.watch(id));
  stream.resume();
  await eventually(async () => (await app.count("waybill.watch")) === 1);

  stream.destroy();

  await eventually(async () => (await app.count("waybill.watch")) === 0);
  expect(stream.destroyed).toBe(true);
});

test("a job that is not there cannot be watched, whatever the id looks like", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);

  for (const id of [newJobId(), "7", "", "x".repeat(500)]) {
    expect(await follow(jobs.watch(id)).ended).toBeInstanceOf(JobNotFoundError);
    await expect(jobs.result(id)).rejects.toBeInstanceOf(JobNotFoundError);
  }
  expect(() => jobs.watch(newJobId(), { signal: "now" } as never)).toThrow(ConfigError);
  await expect(jobs.result(newJobId(), { timeoutMs: -1 })).rejects.toBeInstanceOf(ConfigError);
});

test("watches of one event's deliveries are told apart by their queue", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = newJobId();
  await setInbox(app, id, "running", { queue: "billing" });
  const first = follow(jobs.watch(id));
  await eventually(() => first.seen.length === 1);
  await setInbox(app, id, "running", { queue: "mails" });

  expect(await follow(jobs.watch(id)).ended).toMatchObject({
    message: expect.stringMatching(/queue: is needed: the id is known in billing, mails/),
  });
  const mails = follow(jobs.watch(id, { queue: "mails" }));
  await eventually(() => mails.seen.length === 1);
  await setInbox(app, id, "succeeded", { queue: "mails" });
  await tell(app, id);

  expect(await mails.ended).toBeUndefined();
  await setInbox(app, id, "cancelled", { queue: "billing" });
  await tell(app, id);
  expect(await first.ended).toBeUndefined();
  expect(first.seen.map(({ queue, state }) => [queue, state])).toEqual([
    ["billing", "running"],
    ["billing", "cancelled"],
  ]);
});

test("a watch ends at the job's first end, and a redriven job is watched anew", async () => {
  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const id = await enqueue(app);
  const first = follow(jobs.watch(id));
  await eventually(() => first.seen.length === 1);
  await setFailed(app, id);
  await tell(app, id);
  await first.ended;

  await jobs.retry(id);
  const second = follow(jobs.watch(id));
  await eventually(() => expect(second.seen.at(-1)?.state).toBe("retry_waiting"));
  await succeed(app, id);

  expect(await second.ended).toBeUndefined();
  expect(first.seen.at(-1)?.state).toBe("failed");
});

test("cancel, retry and release tell those who watch, at commit, and nobody else", async () => {
  await using app = await startApplication();
  const [cancelled, retried, released, unwatched] = await Promise.all(
    [1, 2, 3, 4].map(() => enqueue(app)),
  );
  await setFailed(app, retried ?? "");
  await app.pool.query(
    `insert into waybill.timer (id, queue, kind, dispatch, fire_at, reason, type, payload)
     values ($1, 'tests', 'job', 2, 'infinity', 'no_handler', 'test.any', '1')`,
    [released],
  );
  await app.pool.query(
    "insert into waybill.watch (id, watcher, lease_until) select j, $2, now() + interval '1 minute' from unnest($1::uuid[]) as j",
    [[cancelled, retried, released], newJobId()],
  );
  const client = new Client({ connectionString: app.db.url });
  client.on("error", () => undefined);
  await client.connect();
  const heard: (string | undefined)[] = [];
  client.on("notification", ({ payload }) => heard.push(payload));
  await client.query('listen "waybill.job"');

  await app.jobs.cancel(unwatched ?? "");
  const undone = app.database.transaction(async (tx) => {
    await app.jobs.cancel(cancelled ?? "", { tx });
    throw new Error("undone");
  });
  await expect(undone).rejects.toThrow("undone");
  await app.jobs.retry(retried ?? "");
  await app.jobs.cancel(cancelled ?? "");
  await app.jobs.release(released ?? "");

  await eventually(() => expect(heard).toEqual([retried, cancelled, released]));
  await client.end();
});

test("watches of another schema listen to its channel", async () => {
  const schema = "other_jobs";
  await using app = await startApplication({ schema });
  const jobs = createJobs({ database: app.database, schema, listener: listenerTo(app.db.url) });
  const jobId = await enqueue(app);

  const { seen, ended } = follow(jobs.watch(jobId));
  await eventually(async () => (await app.count(`${schema}.watch`)) === 1);
  await jobs.cancel(jobId, { reason: "not wanted", actor: "anna" });

  expect(await ended).toBeUndefined();
  expect(seen.at(-1)).toMatchObject({
    state: "cancelled",
    cancelledBy: "anna",
    cancelReason: "not wanted",
  });
});

test("a watch whose schema is not there, or goes away, ends with an error that says so", async () => {
  await using empty = await createTestDatabase();
  const nowhere = createJobs({ database: pgDatabase(empty.pool), listener: listenerTo(empty.url) });
  expect(await follow(nowhere.watch(newJobId())).ended).toBeInstanceOf(SchemaVersionError);

  await using app = await startApplication();
  const { jobs } = watchedJobs(app);
  const { seen, ended } = follow(jobs.watch(await enqueue(app)));
  await eventually(() => seen.length === 1);
  await app.pool.query("drop schema waybill cascade");

  expect(await ended).toBeInstanceOf(SchemaVersionError);
});

test("a watch of an application that has closed its pool ends with the pool's error", async () => {
  await using app = await startApplication();
  const pool = createPool(app.db.url);
  const { jobs } = watchedJobs(app, { database: pgDatabase(pool) });
  const { seen, ended } = follow(jobs.watch(await enqueue(app)));
  await eventually(() => seen.length === 1);

  await pool.end();

  expect(await ended).toMatchObject({ message: expect.stringMatching(/after calling end/) });
});
