import {
  ConfigError,
  defineJob,
  InvalidTransitionError,
  JobNotFoundError,
  newJobId,
  PayloadError,
} from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { anyJob, type Application, setInbox, startApplication } from "./application.ts";
import { isRelayed, setBacklog, setRetry, setSlot } from "./flow.ts";

const welcome = defineJob({
  name: "email.welcome",
  queue: "emails",
  payload: z.object({ to: z.email() }),
});
const before = { to: "old@example.com" };
const after = { to: "new@example.com" };
const afterText = JSON.stringify(after);

const enqueue = (app: Application, options = {}): Promise<string> =>
  app.outbox
    .enqueue(app.pool, welcome, before, { autocommit: true, ...options })
    .then((receipt) => receipt.jobId);

/** A job that waits for its turn in a governed queue. */
async function enqueueWaiting(app: Application, options = {}): Promise<string> {
  const id = await enqueue(app, options);
  await isRelayed(app);
  await setBacklog(app, id);
  return id;
}

/** What the relay was told to look at again. */
const changed = (app: Application): Promise<readonly string[]> =>
  app.db
    .rows<{ changed: string[] }>("select changed::text[] from waybill.freed order by n")
    .then((rows) => rows.flatMap((row) => row.changed));

/** A dispatch, reduced to what decides: it takes the row of the backlog unless somebody holds it. */
const dispatchText = `
  with free as materialized (
    select b.id, b.queue from waybill.backlog as b where b.id = $1 for update of b skip locked
  ),
  taken as (
    delete from waybill.backlog as b using free as f where b.id = f.id and b.queue = f.queue returning b.*
  )
  select t.priority, coalesce(t.payload, o.payload) as payload
  from taken as t join waybill.outbox as o on o.id = t.id`;

test("an edit of a delayed job, a retry and a job in its turn changes what is sent next, and what is shown", async () => {
  await using app = await startApplication();
  const delayed = await enqueue(app, { delayMs: 60_000 });
  const retried = await enqueue(app);
  await setRetry(app, retried);
  const waiting = await enqueueWaiting(app);

  for (const id of [delayed, retried, waiting]) {
    await app.jobs.edit(id, { job: welcome, payload: after }, { reason: "typo", actor: "anna" });
  }

  for (const id of [delayed, retried, waiting]) {
    expect(await app.jobs.get(id)).toMatchObject({
      payload: afterText,
      audit: [{ action: "edit", actor: "anna", detail: "typo" }],
    });
  }
  expect(await app.db.rows("select distinct payload from waybill.timer")).toEqual([
    { payload: afterText },
  ]);
  expect(await app.db.rows("select payload from waybill.backlog")).toEqual([
    { payload: afterText },
  ]);
  expect(await changed(app)).toEqual([waiting]);
});

test("what the job's schema refuses, or is another job's, is not written", async () => {
  await using app = await startApplication();
  const id = await enqueue(app, { delayMs: 60_000 });
  const wrong = { job: welcome, payload: { to: "nobody" } };

  await expect(app.jobs.edit(id, wrong)).rejects.toBeInstanceOf(PayloadError);
  await expect(app.jobs.edit(id, { job: anyJob, payload: after })).rejects.toThrow(
    /is the definition of "test\.any", but job \S+ is "email\.welcome"/,
  );
  await expect(
    app.jobs.edit(id, { job: welcome, payload: after, maxPayloadBytes: 5 }),
  ).rejects.toBeInstanceOf(PayloadError);
  await expect(app.jobs.edit(newJobId(), { job: welcome, payload: after })).rejects.toBeInstanceOf(
    JobNotFoundError,
  );
  await expect(app.jobs.edit(id, { payload: after } as never)).rejects.toBeInstanceOf(ConfigError);

  expect((await app.jobs.get(id)).payload).toBe(JSON.stringify(before));
});

test("an edit that says so is not checked by a schema, only by the limits of payloads", async () => {
  await using app = await startApplication();
  const id = await enqueue(app, { delayMs: 60_000 });

  await app.jobs.edit(id, { unchecked: true, payload: { to: 5 } });
  const cyclic: unknown[] = [];
  cyclic.push(cyclic);

  await expect(app.jobs.edit(id, { unchecked: true, payload: cyclic })).rejects.toBeInstanceOf(
    PayloadError,
  );
  expect(await app.jobs.get(id)).toMatchObject({ payload: '{"to":5}', version: 1 });
});

test("a definition of a later version gives its version to a delayed job, and none to one in its turn", async () => {
  await using app = await startApplication();
  const second = defineJob({
    name: "email.welcome",
    queue: "emails",
    version: 2,
    payload: welcome.payload,
    upcasters: { 1: (payload) => payload },
  });
  const delayed = await enqueue(app, { delayMs: 60_000 });
  const waiting = await enqueueWaiting(app);

  await app.jobs.edit(delayed, { job: second, payload: after });

  await expect(app.jobs.edit(waiting, { job: second, payload: after })).rejects.toThrow(
    /Its payload has version 1, the definition 2/,
  );
  expect(await app.jobs.get(delayed)).toMatchObject({ version: 2, payload: afterText });
  expect(await app.jobs.get(waiting)).toMatchObject({ payload: JSON.stringify(before) });
});

test("a job of a waiting order goes by its new priority, and its message says the same", async () => {
  await using app = await startApplication();
  const delayed = await enqueue(app, { delayMs: 60_000 });
  const waiting = await enqueueWaiting(app);

  await app.jobs.reprioritise(delayed, 7);
  await app.jobs.reprioritise(waiting, -3, { reason: "can wait" });

  expect((await app.jobs.get(delayed)).priority).toBe(7);
  expect(await app.jobs.get(waiting)).toMatchObject({
    priority: -3,
    audit: [{ action: "reprioritise", actor: "tester", detail: "priority -3: can wait" }],
  });
  expect(await app.db.rows("select priority, lane from waybill.backlog")).toEqual([
    { priority: -3, lane: "-3/email.welcome/" },
  ]);
  expect(await changed(app)).toEqual([waiting]);
  await expect(app.jobs.reprioritise(waiting, 101)).rejects.toBeInstanceOf(ConfigError);
});

test("a job that is put off leaves its turn with all that it carries, and comes back as its next dispatch", async () => {
  await using app = await startApplication();
  const id = await enqueueWaiting(app, {
    headers: { a: "b" },
    correlationId: "c1",
    orderingKey: "k1",
    priority: 4,
  });
  await app.jobs.edit(id, { job: welcome, payload: after });

  const at = await app.jobs.delay(id, { delayMs: 60_000 });

  expect(at.getTime()).toBeGreaterThan(Date.now() + 50_000);
  expect(await app.count("waybill.backlog")).toBe(0);
  expect(await changed(app)).toEqual([id, id]);
  expect(
    await app.db.rows(
      "select queue, kind, dispatch, reason, type, payload, headers, priority, ordering_key, correlation_id from waybill.timer",
    ),
  ).toEqual([
    {
      queue: "emails",
      kind: "job",
      dispatch: 2,
      reason: "delay",
      type: "email.welcome",
      payload: afterText,
      headers: { a: "b" },
      priority: 4,
      ordering_key: "k1",
      correlation_id: "c1",
    },
  ]);
  expect(await app.jobs.get(id)).toMatchObject({
    state: "queued",
    waitingFor: "delay",
    nextAt: at,
    audit: [
      { action: "edit" },
      { action: "delay", detail: expect.stringMatching(/^until \d{4}-\S+Z$/) },
    ],
  });
  expect((await app.jobs.list()).jobs).toHaveLength(1);
  expect((await app.jobs.counts()).total.queued).toBe(1);
});

test("a delay and a retry get another time, and a release lets both go at once", async () => {
  await using app = await startApplication();
  const delayed = await enqueue(app, { delayMs: 60_000 });
  const retried = await enqueue(app);
  await setRetry(app, retried);
  const runAt = new Date("2099-01-01T00:00:00.000Z");

  for (const id of [delayed, retried]) {
    expect(await app.jobs.delay(id, { runAt })).toEqual(runAt);
    expect((await app.jobs.get(id)).nextAt).toEqual(runAt);
    expect(await app.jobs.release(id)).toBe(1);
  }

  expect(await app.count("waybill.timer where fire_at <= clock_timestamp()")).toBe(2);
});

test.each([
  [{}, /delayMs: is needed/],
  [{ delayMs: 5, runAt: new Date(0) }, /does not go together with runAt/],
  [{ delayMs: -1 }, /delayMs: must be an integer/],
  [{ runAt: new Date(Number.NaN) }, /runAt: must be a Date/],
])("a delay of %j is refused", async (until, message) => {
  await using app = await startApplication();

  await expect(app.jobs.delay(newJobId(), until)).rejects.toThrow(message);
});

test("a job that waits nowhere is left alone by every act, which says where it is", async () => {
  await using app = await startApplication();
  const onItsWay = await enqueue(app);
  const running = await enqueue(app);
  const ended = await enqueue(app);
  const dispatched = await enqueue(app);
  const parked = await enqueue(app);
  await isRelayed(app);
  const unrelayed = await enqueue(app);
  await setInbox(app, running, "running", { queue: "emails" });
  await setInbox(app, ended, "succeeded", { queue: "emails" });
  await setSlot(app, dispatched);
  await app.pool.query(
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, type, payload)
     values ($1, 'emails', 1, 'infinity', 'refused', 'email.welcome', '{}')`,
    [parked],
  );

  const refusals: readonly (readonly [string, RegExp])[] = [
    [onItsWay, /It is on its way to a worker/],
    [dispatched, /It is on its way to a worker/],
    [running, /from running to .* It runs/],
    [ended, /from succeeded to .* It has ended/],
    [parked, /It is kept as refused/],
    [unrelayed, /The relay has not read it yet/],
  ];
  for (const [id, message] of refusals) {
    const acts = [
      () => app.jobs.edit(id, { job: welcome, payload: after }),
      () => app.jobs.delay(id, { delayMs: 5 }),
      ...(id === parked ? [] : [() => app.jobs.reprioritise(id, 5)]),
    ];
    for (const act of acts) {
      const refusal: unknown = await act().catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(InvalidTransitionError);
      expect((refusal as Error).message).toMatch(message);
    }
    expect((await app.jobs.get(id)).audit).toEqual([]);
  }
  expect(await app.count(`waybill.outbox where payload <> '${JSON.stringify(before)}'`)).toBe(0);
  expect(await changed(app)).toEqual([]);
});

test("acts on waiting jobs join the caller's transaction and are undone with it", async () => {
  await using app = await startApplication();
  const id = await enqueueWaiting(app);

  const undone = app.database.transaction(async (tx) => {
    await app.jobs.edit(id, { job: welcome, payload: after }, { tx });
    await app.jobs.reprioritise(id, 9, { tx });
    await app.jobs.delay(id, { delayMs: 5 }, { tx });
    // It waits for the delay now, so it can still be edited.
    await app.jobs.edit(id, { job: welcome, payload: before }, { tx });
    throw new Error("undo");
  });

  await expect(undone).rejects.toThrow("undo");
  expect(await app.count("waybill.timer")).toBe(0);
  expect(await app.db.rows("select priority, payload from waybill.backlog")).toEqual([
    { priority: 0, payload: null },
  ]);
  expect(await app.jobs.get(id)).toMatchObject({ payload: JSON.stringify(before), audit: [] });
});

test("an act and a dispatch at the same time: either the dispatch has it, or the act was refused", async () => {
  await using app = await startApplication();
  await enqueueWaiting(app);

  for (let round = 0; round < 20; round += 1) {
    const id = await enqueueWaiting(app);
    const act = round % 2 === 0 ? "edit" : "delay";
    const acted =
      act === "edit"
        ? app.jobs.edit(id, { job: welcome, payload: after })
        : app.jobs.delay(id, { delayMs: 60_000 });
    const [done, sent] = await Promise.all([
      acted.then(
        () => true,
        () => false,
      ),
      app.db.rows<{ payload: string }>(dispatchText, [id]),
    ]);

    const left = await app.count(`waybill.backlog where id = '${id}'`);
    const timers = await app.count(`waybill.timer where id = '${id}'`);
    // It is in one place, whoever came first.
    expect(sent.length + left + timers).toBe(1);
    if (act === "edit" && done && sent[0] !== undefined) expect(sent[0].payload).toBe(afterText);
    if (!done) expect(sent).toHaveLength(1);
  }
});

test("a dispatch leaves a job alone whose edit has not committed, and sends the new payload after it", async () => {
  await using app = await startApplication();
  const id = await enqueueWaiting(app);

  const during = await app.database.transaction(async (tx) => {
    await app.jobs.edit(id, { job: welcome, payload: after }, { tx });
    return app.db.rows(dispatchText, [id]);
  });
  const later = await app.db.rows(dispatchText, [id]);

  expect(during).toEqual([]);
  expect(later).toEqual([{ priority: 0, payload: afterText }]);
});
