/** Reports on who owns a job, as docs/reliability.md numbers them: workers killed, frozen and alive. */

import { defineJob, RetryAfterError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, startProxy } from "../support/index.ts";
import { startLine } from "../support/line.ts";
import { openTransaction } from "../relay/support.ts";
import { greedy, held, heldOnce, limited, queue, sentinel } from "./jobs.ts";
import {
  consuming,
  createLedger,
  effectsOf,
  leasesPass,
  look,
  runsOf,
  sentinelRuns,
  startWorkerProcess,
  stateBecomes,
  writeEffect,
} from "./support.ts";

const payload = z.object({ n: z.int() });
const tenMinutes = 600_000;
/** The broker notices by missing heartbeats alone that a frozen worker holds what it was sent. */
const unheard = { deadlineMs: 60_000 };

test("A15: ten jobs of a killed worker start elsewhere while its lease still runs, the crash is counted, and each says who has it", async () => {
  await using line = await startLine();
  await createLedger(line);
  line.startRelay();
  await using victim = await startWorkerProcess(line, { name: "victim", leaseMs: tenMinutes });
  const enqueued = await line.transaction((tx) =>
    line.outbox.enqueueMany(
      tx,
      held,
      Array.from({ length: 10 }, () => ({ payload: {} })),
    ),
  );
  const ids = enqueued.map(({ jobId }) => jobId);
  const records = () => Promise.all(ids.map((id) => line.jobs.get(id)));
  await eventually(() => expect(runsOf(victim)).toHaveLength(10));
  const before = await records();
  await using other = await startWorkerProcess(line, { name: "other", leaseMs: tenMinutes });

  victim.kill("SIGKILL");

  await eventually(() => expect(runsOf(other)).toHaveLength(10));
  const [lease] = await line.database.rows(
    "select lease_until > clock_timestamp() as runs from waybill.worker where name = 'victim'",
  );
  const after = await records();
  expect(lease).toEqual({ runs: true });
  for (const job of before) {
    expect(job).toMatchObject({ state: "running", worker: "victim", crashes: 0, attempt: 1 });
  }
  for (const job of after) {
    expect(job).toMatchObject({ state: "running", worker: "other", crashes: 1, attempt: 1 });
  }
  other.writeLine("go");
  for (const id of ids) await stateBecomes(line, id, "succeeded");
  for (const id of ids) expect(await effectsOf(line, id)).toBe(1);
});

test("A15: jobs that come back before the database has seen their worker's end start elsewhere as soon as it has", async () => {
  await using line = await startLine();
  await createLedger(line);
  line.startRelay();
  await using victim = await startWorkerProcess(line, { name: "victim", leaseMs: tenMinutes });
  await line.transaction((tx) =>
    line.outbox.enqueueMany(tx, held, [{ payload: {} }, { payload: {} }]),
  );
  await eventually(() => expect(runsOf(victim)).toHaveLength(2));
  await using other = await startWorkerProcess(line, { name: "other", leaseMs: tenMinutes });
  const [row] = await line.database.rows(
    "select lock_key::text as key from waybill.worker where name = 'victim'",
  );
  // Whoever waits for a session's lock has it when the session ends: the victim seems to live on.
  const heir = await line.database.pool.connect();
  const inherited = heir.query("select pg_advisory_lock($1)", [row?.["key"]]);
  await eventually(async () =>
    expect(
      await line.database.rows("select from pg_locks where locktype = 'advisory' and not granted"),
    ).toHaveLength(1),
  );

  victim.kill("SIGKILL");
  await inherited;
  await eventually(async () =>
    expect(
      await line.database.rows("select from waybill.timer where reason = 'held'"),
    ).toHaveLength(2),
  );
  expect(runsOf(other)).toEqual([]);
  await heir.query("select pg_advisory_unlock_all()");
  heir.release();

  await eventually(() => expect(runsOf(other)).toHaveLength(2));
});

test("A16: a unique job whose worker died in its only attempt ends as failed, and its key is free for the next one", async () => {
  await using line = await startLine();
  await createLedger(line);
  line.startRelay();
  const enqueue = () =>
    line.transaction((tx) =>
      line.outbox.enqueue(
        tx,
        heldOnce,
        {},
        { idempotencyKey: "month-end", idempotencyMode: "until_end" },
      ),
    );
  const settings = { leaseMs: tenMinutes, crashBudget: 0 };
  await using victim = await startWorkerProcess(line, { name: "victim", ...settings });
  const first = await enqueue();
  await victim.waitForLine(`run ${heldOnce.name} ${first.jobId}`);

  victim.kill("SIGKILL");
  await victim.exited;
  const meanwhile = await enqueue();
  await using other = await startWorkerProcess(line, { name: "other", ...settings });
  await stateBecomes(line, first.jobId, "failed");
  const next = await enqueue();
  other.writeLine("go");
  await stateBecomes(line, next.jobId, "succeeded");

  expect(meanwhile).toEqual({ jobId: first.jobId, deduplicated: true });
  expect(await line.jobs.get(first.jobId)).toMatchObject({
    failureClass: "crashed",
    attempt: 1,
    crashes: 1,
    deaths: 1,
  });
  expect(next).toEqual({
    jobId: expect.not.stringMatching(first.jobId) as string,
    deduplicated: false,
  });
  expect(await effectsOf(line, first.jobId)).toBe(0);
  expect(await effectsOf(line, next.jobId)).toBe(1);
});

test("A17, G2: a handler that blocks the event loop for several leases keeps its job, runs once, is named in the log, and its worker goes on", async () => {
  await using line = await startLine();
  await createLedger(line);
  line.startRelay();
  await using blocked = await startWorkerProcess(line, { name: "blocked", leaseMs: 1_000 });
  const { jobId } = await line.transaction((tx) =>
    line.outbox.enqueue(tx, greedy, { blockMs: 6_000 }),
  );
  await blocked.waitForLine(`run greedy ${jobId} 1`);
  await using other = await startWorkerProcess(line, { name: "other", leaseMs: 1_000 });

  await stateBecomes(line, jobId, "succeeded");
  await blocked.waitForLine(
    (text) => text.includes("handler blocked the event loop") && text.includes("greedy"),
  );

  expect(runsOf(other, jobId)).toEqual([]);
  expect(await line.jobs.get(jobId)).toMatchObject({
    worker: "blocked",
    attempt: 1,
    crashes: 0,
    failures: [],
  });
  expect(await effectsOf(line, jobId)).toBe(1);
  other.kill("SIGKILL");
  await other.exited;
  await sentinelRuns(line);
  expect(blocked.hasExited).toBe(false);
});

test("A18: jobs that run longer than every lease and sweep are left to a worker that lives, and taken from one that does not", async () => {
  await using line = await startLine();
  await createLedger(line);
  line.startRelay();
  await using living = await startWorkerProcess(line, { name: "living", leaseMs: 1_000 });
  await using dead = await startWorkerProcess(line, { name: "dead", leaseMs: 1_000 });
  const workers = [living, dead];
  const enqueued = await line.transaction((tx) =>
    line.outbox.enqueueMany(
      tx,
      held,
      Array.from({ length: 8 }, () => ({ payload: {} })),
    ),
  );
  await eventually(() => expect(workers.flatMap((worker) => runsOf(worker))).toHaveLength(8));
  const healthy = enqueued.filter(({ jobId }) => runsOf(living, jobId).length === 1);
  const orphaned = enqueued.filter(({ jobId }) => runsOf(dead, jobId).length === 1);
  expect(healthy.length).toBeGreaterThan(0);
  expect(orphaned.length).toBeGreaterThan(0);

  dead.kill("SIGSTOP");
  await eventually(() => expect(runsOf(living)).toHaveLength(8), unheard);
  await leasesPass(line, "living", 5);

  for (const { jobId } of healthy) {
    expect(await line.jobs.get(jobId)).toMatchObject({ state: "running", crashes: 0, dispatch: 1 });
    expect(runsOf(living, jobId)).toHaveLength(1);
  }
  for (const { jobId } of orphaned) {
    expect(await line.jobs.get(jobId)).toMatchObject({ state: "running", crashes: 1, attempt: 1 });
  }
  const copies = await line.database.rows(
    "select from waybill.outbox where id = any($1) and dispatch > 1",
    [healthy.map(({ jobId }) => jobId)],
  );
  expect(copies).toEqual([]);
  living.writeLine("go");
  for (const { jobId } of enqueued) {
    await stateBecomes(line, jobId, "succeeded");
    expect(await effectsOf(line, jobId)).toBe(1);
  }
}, 180_000);

test("A29: a worker that freezes spends no attempt of its job but a crash, the job succeeds elsewhere, and the late worker's writes are refused", async () => {
  await using line = await startLine();
  await createLedger(line);
  await using proxy = await startProxy(line.vhost.url);
  line.startRelay();
  await using late = await startWorkerProcess(line, {
    name: "late",
    leaseMs: 1_000,
    broker: { url: proxy.url(line.vhost.url), prefix: line.vhost.prefix },
  });
  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, held, { deaf: true }));
  await late.waitForLine(`run held ${jobId}`);

  late.kill("SIGSTOP");
  // Otherwise the broker waits for its heartbeats before it gives the message to another one.
  proxy.cut();
  await using other = await startWorkerProcess(line, { name: "other" });
  await other.waitForLine(`run held ${jobId} 1`);
  other.writeLine("go");
  await stateBecomes(line, jobId, "succeeded");
  late.writeLine("go");
  late.kill("SIGCONT");

  expect(await late.waitForLine(`refused ${jobId}`)).toContain("WAYBILL_JOB_LEASE_LOST");
  await sentinelRuns(line);
  expect(await line.jobs.get(jobId)).toMatchObject({
    state: "succeeded",
    worker: "other",
    attempt: 1,
    crashes: 1,
    deaths: 0,
    failures: [],
  });
  expect(await effectsOf(line, jobId)).toBe(1);
  expect(await line.database.rows("select from waybill.dead_letter")).toEqual([]);
  expect(late.hasExited).toBe(false);
});

test.each([
  ["before it gets there", "cutBefore"],
  ["after it got there", "cutReply"],
  ["by the server while it is written", "terminate"],
] as const)(
  "A27: a connection that ends as the last failure of a job is written, %s, leaves the job failed once, and the next of its key runs",
  async (_when, fault) => {
    await using line = await startLine();
    await using proxy = await startProxy(line.database.url);
    await createLedger(line);
    const last = defineJob({ name: "last", queue, payload, retry: { maxAttempts: 1 } });
    const begun = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    line.startRelay();
    const worker = line.startWorker(
      [queue],
      (it) => {
        it.handle(last, async () => {
          begun.resolve();
          await goOn.promise;
          throw new Error("the last attempt");
        });
        it.handleInTransaction(sentinel, (job, tx) => writeEffect(tx, job));
      },
      { databaseUrl: proxy.url(line.database.url), queues: { [queue]: { concurrency: 1 } } },
    );
    await consuming(worker);
    const key = { orderingKey: "account-1" };
    const [first, next] = await line.transaction(async (tx) => [
      await line.outbox.enqueue(tx, last, { n: 1 }, key),
      await line.outbox.enqueue(tx, sentinel, { n: 2 }, key),
    ]);
    await begun.promise;

    if (fault === "terminate") {
      await using blocker = await openTransaction(line.database.pool);
      await blocker.client.query("select from waybill.inbox for update");
      goOn.resolve();
      await eventually(async () => {
        const ended = await line.database.rows(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name like 'waybill-worker%'
             and wait_event_type = 'Lock'`,
        );
        expect(ended.length).toBeGreaterThan(0);
      });
    } else {
      proxy[fault]("fail_attempts");
      goOn.resolve();
      await eventually(() => expect(proxy.triggeredCount).toBe(1));
    }

    await stateBecomes(line, first?.jobId ?? "", "failed");
    await stateBecomes(line, next?.jobId ?? "", "succeeded");
    await worker.stop();
    expect(await look(line)).toEqual({ ready: 0, consumers: 0 });
    expect(await line.jobs.get(first?.jobId ?? "")).toMatchObject({
      attempt: 1,
      crashes: 0,
      deaths: 1,
      failures: [{ terminal: true }],
    });
    expect(await line.database.rows("select id from waybill.dead_letter")).toEqual([
      { id: first?.jobId },
    ]);
    expect(await effectsOf(line, next?.jobId ?? "")).toBe(1);
  },
);

test("A28: a job that asks to come back in a second leaves the only slot to its neighbours and is run again after it", async () => {
  await using line = await startLine();
  const order: string[] = [];
  line.startRelay();
  line.startWorker(
    [queue],
    (it) => {
      it.handle(limited, (job) => {
        order.push(`limited ${job.attempt}`);
        if (job.attempt === 1) throw new RetryAfterError("rate limited", job.payload.pauseMs);
      });
      it.handle(sentinel, () => void order.push("neighbour"));
    },
    { queues: { [queue]: { concurrency: 1 } } },
  );

  const { jobId } = await line.transaction(async (tx) => {
    const first = await line.outbox.enqueue(tx, limited, { pauseMs: 1_000 });
    await line.outbox.enqueueMany(tx, sentinel, [{ payload: { n: 1 } }, { payload: { n: 2 } }]);
    return first;
  });
  await stateBecomes(line, jobId, "succeeded");

  expect(order).toEqual(["limited 1", "neighbour", "neighbour", "limited 2"]);
  expect(await line.jobs.get(jobId)).toMatchObject({
    attempt: 2,
    failures: [{ failureClass: "rate_limited", terminal: false }],
  });
});

test("A28: a worker that dies while its job waits to come back leaves it to another one", async () => {
  await using line = await startLine();
  await createLedger(line);
  const oneSlot = { queues: { [queue]: { concurrency: 1 } } };
  const relay = line.startRelay();
  await using victim = await startWorkerProcess(line, { name: "victim", ...oneSlot });
  const { jobId } = await line.transaction((tx) =>
    line.outbox.enqueue(tx, limited, { pauseMs: 1_000 }),
  );
  await victim.waitForLine(`run limited ${jobId} 1`);
  // Nothing fires while there is no relay, so the worker dies before the pause is over.
  await relay.stop();
  await stateBecomes(line, jobId, "retry_waiting");

  victim.kill("SIGKILL");
  await victim.exited;
  await using other = await startWorkerProcess(line, { name: "other", ...oneSlot });
  line.startRelay();

  await other.waitForLine(`run limited ${jobId} 2`);
  await stateBecomes(line, jobId, "succeeded");
  expect(await line.jobs.get(jobId)).toMatchObject({ attempt: 2, crashes: 0, worker: "other" });
  expect(await effectsOf(line, jobId)).toBe(1);
});
