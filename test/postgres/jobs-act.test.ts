import {
  canTransition,
  InvalidTransitionError,
  type JobState,
  jobStates,
  newJobId,
  PayloadUnavailableError,
} from "@waybill/core";
import { expect, test } from "vitest";
import { anyJob, type Application, setFailed, setInbox, startApplication } from "./application.ts";

const enqueue = (app: Application, payload: unknown = 1, options = {}): Promise<string> =>
  app.outbox
    .enqueue(app.pool, anyJob, payload, { autocommit: true, ...options })
    .then((receipt) => receipt.jobId);

/** A timer as the worker or the relay leaves it. */
const setTimer = (
  app: Application,
  id: string,
  reason: string,
  fireAt = "infinity",
): Promise<unknown> =>
  app.pool.query(
    `insert into waybill.timer (id, queue, kind, dispatch, fire_at, reason, type, payload)
     values ($1, 'tests', 'job', 2, $2, $3, 'test.any', '1')`,
    [id, fireAt, reason],
  );

test("a queued job that is cancelled has ended, and a delayed one loses its timer", async () => {
  await using app = await startApplication();
  const queued = await enqueue(app);
  const delayed = await enqueue(app, 2, { delayMs: 60_000 });

  expect(await app.jobs.cancel(queued, { reason: "not wanted", actor: "anna" })).toBe("cancelled");
  expect(await app.jobs.cancel(delayed)).toBe("cancelled");

  expect(await app.jobs.get(queued)).toMatchObject({
    state: "cancelled",
    cancelledBy: "anna",
    cancelReason: "not wanted",
    attempt: 0,
    audit: [{ actor: "anna", action: "cancel", detail: "not wanted" }],
  });
  expect(await app.jobs.get(delayed)).toMatchObject({
    state: "cancelled",
    audit: [{ actor: "tester" }],
  });
  expect(await app.count("waybill.timer")).toBe(0);
});

test("a job that waits for its retry is cancelled with its timer", async () => {
  await using app = await startApplication();
  const id = await enqueue(app);
  await setInbox(app, id, "retry_waiting");
  await setTimer(app, id, "retry", "tomorrow");

  expect(await app.jobs.cancel(id)).toBe("cancelled");

  expect((await app.jobs.get(id)).finishedAt).toBeInstanceOf(Date);
  expect(await app.count("waybill.timer")).toBe(0);
});

test("a running job is asked to end, and keeps its held copies", async () => {
  await using app = await startApplication();
  const id = await enqueue(app);
  await setInbox(app, id, "running");
  await setTimer(app, id, "held", "tomorrow");

  expect(await app.jobs.cancel(id)).toBe("running");
  const first = (await app.jobs.get(id)).cancelRequestedAt;
  expect(await app.jobs.cancel(id)).toBe("running");

  const job = await app.jobs.get(id);
  expect(job).toMatchObject({ state: "running", cancelRequestedAt: first, finishedAt: null });
  expect(job.audit).toHaveLength(2);
  expect(await app.count("waybill.timer")).toBe(1);
});

test("each state can be cancelled or retried exactly where the state machine allows it", async () => {
  await using app = await startApplication();

  for (const state of jobStates) {
    const make = async (): Promise<string> => {
      const id = await enqueue(app, state);
      if (state === "failed") await setFailed(app, id);
      else if (state !== "queued") await setInbox(app, id, state);
      return id;
    };
    const [toCancel, toRetry] = [await make(), await make()];
    const cancelled = await app.jobs.cancel(toCancel).catch((error: unknown) => error);
    const retried = await app.jobs.retry(toRetry).catch((error: unknown) => error);

    expect(!(cancelled instanceof Error), `cancel ${state}`).toBe(
      canTransition(state, "cancelled"),
    );
    if (cancelled instanceof Error) {
      expect(cancelled).toBeInstanceOf(InvalidTransitionError);
      expect(cancelled).toMatchObject({ from: state, to: "cancelled" });
      expect((await app.jobs.get(toCancel)).state).toBe(state);
    }
    expect(!(retried instanceof Error), `retry ${state}`).toBe(state === "failed");
    if (retried instanceof Error) {
      expect(retried).toMatchObject({ code: "WAYBILL_INVALID_TRANSITION", from: state });
      expect((await app.jobs.get(toRetry)).state).toBe(state);
    }
  }
});

test("a retry redrives a failed job with its payload, a fresh series of attempts and the next dispatch", async () => {
  await using app = await startApplication();
  const id = await enqueue(app, { exact: 1 }, { headers: { a: "b" } });
  await setFailed(app, id);

  await app.jobs.retry(id, { reason: "fixed", actor: "anna" });

  expect(await app.jobs.get(id)).toMatchObject({
    state: "retry_waiting",
    attempt: 0,
    crashes: 0,
    deaths: 1,
    finishedAt: null,
    failures: [{ attempt: 3 }],
    audit: [{ action: "retry", actor: "anna", detail: "fixed" }],
  });
  const rows = await app.db.rows(
    "select kind, queue, dispatch, payload, headers from waybill.outbox where id = $1 order by dispatch",
    [id],
  );
  expect(rows[1]).toEqual({
    kind: "job",
    queue: "tests",
    dispatch: 4,
    payload: '{"exact":1}',
    headers: { a: "b" },
  });
  expect(await app.count("waybill.dead_letter")).toBe(0);
});

test("F7: of retries at the same time one dispatches, and the others are told the state", async () => {
  await using app = await startApplication();

  for (let round = 0; round < 10; round += 1) {
    const id = await enqueue(app, round);
    await setFailed(app, id);

    const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => app.jobs.retry(id)));

    expect(outcomes.filter((outcome) => outcome.status === "fulfilled")).toHaveLength(1);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") {
        expect(outcome.reason).toMatchObject({
          code: "WAYBILL_INVALID_TRANSITION",
          from: "retry_waiting",
        });
      }
    }
    expect(await app.count(`waybill.outbox where id = '${id}' and dispatch > 1`)).toBe(1);
    expect(await app.count(`waybill.audit_log where id = '${id}'`)).toBe(1);
  }
});

test("a failed job whose payload is gone cannot be retried, and says so", async () => {
  await using app = await startApplication();
  const id = newJobId();
  await setInbox(app, id, "failed");

  await expect(app.jobs.retry(id)).rejects.toBeInstanceOf(PayloadUnavailableError);

  expect((await app.jobs.get(id)).state).toBe("failed");
});

test("only the delivery that is named is retried", async () => {
  await using app = await startApplication();
  const id = await enqueue(app);
  await setFailed(app, id, "billing");
  await setFailed(app, id, "mails");

  await expect(app.jobs.retry(id)).rejects.toMatchObject({ code: "WAYBILL_CONFIG_INVALID" });
  await app.jobs.retry(id, { queue: "mails" });

  expect((await app.jobs.get(id, { queue: "mails" })).state).toBe("retry_waiting");
  expect((await app.jobs.get(id, { queue: "billing" })).state).toBe("failed");
});

test.each(["no_handler", "unroutable", "nacked", "refused"])(
  "a message parked as %s is released at once, with a record",
  async (reason) => {
    await using app = await startApplication();
    const id = await enqueue(app);
    await setTimer(app, id, reason);
    expect(await app.jobs.get(id)).toMatchObject({
      parked: true,
      waitingFor: reason,
      nextAt: null,
    });

    expect(await app.jobs.release(id, { actor: "anna" })).toBe(1);

    const job = await app.jobs.get(id);
    expect(job).toMatchObject({
      parked: false,
      audit: [{ action: "release", actor: "anna", detail: reason }],
    });
    expect(await app.count("waybill.timer where fire_at <= clock_timestamp()")).toBe(1);
  },
);

test("a delayed job and a retry are released at once, and what waits for nothing is not", async () => {
  await using app = await startApplication();
  const delayed = await enqueue(app, 1, { delayMs: 60_000 });
  const waiting = await enqueue(app);
  const held = await enqueue(app);
  await setInbox(app, waiting, "retry_waiting");
  await setTimer(app, waiting, "retry", "tomorrow");
  await setTimer(app, held, "held", "tomorrow");

  for (const id of [delayed, waiting]) expect(await app.jobs.release(id)).toBe(1);
  await expect(app.jobs.release(held)).rejects.toThrow(/Nothing of it waits for a time/);

  expect(await app.count("waybill.timer where fire_at <= clock_timestamp()")).toBe(2);
  expect((await app.jobs.get(waiting)).audit).toMatchObject([
    { action: "release", detail: "retry" },
  ]);
});

test("acts join the caller's transaction and are undone with it", async () => {
  await using app = await startApplication();
  const queued = await enqueue(app);
  const failed = await enqueue(app);
  await setFailed(app, failed);

  const undone = app.database.transaction(async (tx) => {
    await app.jobs.cancel(queued, { tx });
    await app.jobs.retry(failed, { tx });
    // A refusal leaves the transaction usable.
    await expect(app.jobs.cancel(queued, { tx })).rejects.toBeInstanceOf(InvalidTransitionError);
    expect((await app.jobs.get(failed, { tx })).state).toBe("retry_waiting");
    throw new Error("undo");
  });

  await expect(undone).rejects.toThrow("undo");
  expect((await app.jobs.get(queued)).state).toBe("queued");
  expect((await app.jobs.get(failed)).state).toBe("failed");
  expect(await app.count("waybill.audit_log")).toBe(0);
});

test("a cancel and a claim at the same time leave one winner", async () => {
  await using app = await startApplication();
  const ends: JobState[] = [];

  for (let round = 0; round < 30; round += 1) {
    const id = await enqueue(app, round);
    // The claim of a worker, reduced to what decides.
    const claim = app.pool.query(
      `insert into waybill.inbox as i (id, queue, type, state, attempt, dispatch)
       values ($1, 'tests', 'test.any', 'running', 1, 1)
       on conflict (id, queue) do update set state = 'running', attempt = i.attempt + 1
       where i.state in ('queued', 'retry_waiting')`,
      [id],
    );
    const [{ rowCount }, cancelled] = await Promise.all([claim, app.jobs.cancel(id)]);

    const { state, cancelRequestedAt } = await app.jobs.get(id);
    ends.push(state);
    expect(cancelled).toBe(state);
    expect(rowCount).toBe(state === "running" ? 1 : 0);
    expect(cancelRequestedAt).not.toBeNull();
  }

  expect(ends).toHaveLength(30);
});
