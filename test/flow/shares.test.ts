import { expect, test } from "vitest";
import { createPool, eventually } from "../support/index.ts";
import { type App, type RunningWorker, startApp } from "../worker/support/start-app.ts";
import { createSpans, handleSpans, setLimit, setPaused, type Spans } from "./support/spans.ts";

const spanWorker = new URL("support/span-worker.ts", import.meta.url);

interface Setup extends AsyncDisposable {
  readonly app: App;
  readonly spans: Spans;
  startWorker(concurrency: number): Promise<RunningWorker>;
}

/** An app whose relay runs. */
async function setUp(): Promise<Setup> {
  const app = await startApp();
  const spans = await createSpans(app);
  const pool = createPool(app.database.url, 40);
  await app.startRelayProcess();
  return {
    app,
    spans,
    startWorker: (concurrency) =>
      app.startWorker((worker) => handleSpans(worker, pool), {
        queues: { work: { concurrency } },
      }),
    async [Symbol.asyncDispose]() {
      await app[Symbol.asyncDispose]();
      await pool.end();
    },
  };
}

test("two workers use all of a limit between them, and no more", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  await setLimit(app, 5);
  const workers = await Promise.all([setup.startWorker(20), setup.startWorker(20)]);

  await spans.enqueue(200, 30);
  await eventually(() => spans.succeeded().then((done) => done === 200));

  expect(await spans.most()).toBe(5);
  const shares = workers.map(({ worker }) => worker.status().queues[0]?.share ?? 0);
  expect(shares.toSorted((one, other) => one - other)).toEqual([2, 3]);
});

test("a limit that is lowered and raised while jobs run holds a second later, and never more runs than before", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  await setLimit(app, 12);
  await Promise.all([setup.startWorker(20), setup.startWorker(20)]);
  await spans.enqueue(4_000, 25);
  await eventually(() => spans.succeeded().then((done) => done > 100));

  const stretches: { limit: number; from: Date; to: Date }[] = [];
  for (const limit of [3, 8, 2, 12, 5]) {
    const before = await spans.succeeded();
    await setLimit(app, limit);
    const changed = await spans.now();
    const from = new Date(changed.getTime() + 1_200);
    await eventually(() => spans.succeeded().then((done) => done > before + 130));
    await eventually(() => spans.now().then((now) => now.getTime() > from.getTime() + 300));
    stretches.push({ limit, from, to: await spans.now() });
  }

  for (const { limit, from, to } of stretches) {
    const most = await spans.most(from, to);
    expect(most, `limit of ${limit}`).toBeLessThanOrEqual(limit);
    // A loaded machine may never have had all at once.
    expect(most, `limit of ${limit}`).toBeGreaterThan(limit * 0.6);
  }
  expect(await spans.most()).toBeLessThanOrEqual(12);
});

test("jobs that were claimed ahead of a share go back unharmed when the queue is paused or the worker stops", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  await setLimit(app, 4);
  const first = await setup.startWorker(20);
  const isAhead = ({ worker }: RunningWorker): boolean => {
    const [queue] = worker.status().queues;
    return queue !== undefined && queue.running > worker.status().running;
  };
  await spans.enqueue(400, 5);
  await eventually(() => isAhead(first), { intervalMs: 1 });

  await setPaused(app, true);
  await eventually(() => first.worker.status().queues[0]?.running === 0);
  await setPaused(app, false);
  await eventually(() => isAhead(first), { intervalMs: 1 });
  await first.stop();
  await setup.startWorker(20);
  await eventually(() => spans.succeeded().then((done) => done === 400));

  expect(await spans.most()).toBeLessThanOrEqual(4);
  const [row] = await app.database.rows<{ runs: number; attempts: number }>(
    "select count(*)::integer as runs, (select max(attempt)::integer from waybill.inbox) as attempts from span",
  );
  expect(row).toEqual({ runs: 400, attempts: 1 });
});

test("a limit set where there was none holds a second later, over workers that run already", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  await Promise.all([setup.startWorker(8), setup.startWorker(8)]);
  await spans.enqueue(800, 25);
  await eventually(() => spans.succeeded().then((done) => done > 50));

  await setLimit(app, 4);
  const from = new Date((await spans.now()).getTime() + 1_200);
  await setup.startWorker(8);
  await eventually(() => spans.now().then((now) => now.getTime() > from.getTime() + 800));
  const to = await spans.now();

  expect(await spans.most(from, to)).toBe(4);
  await setLimit(app, undefined);
  await eventually(() => spans.succeeded().then((done) => done === 800));
});

test("a worker that drains gives its share to the others as its jobs end", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  await setLimit(app, 4);
  const first = await setup.startWorker(4);
  const second = await setup.startWorker(4);
  const shareOf = ({ worker }: RunningWorker): number | undefined =>
    worker.status().queues[0]?.share;
  await eventually(() => shareOf(first) === 2 && shareOf(second) === 2);
  await spans.enqueue(300, 25);
  await eventually(() => spans.succeeded().then((done) => done > 20));

  await app.database.rows(
    "update waybill.worker set stop_requested = 'drain', stop_requested_at = now() where id = $1",
    [first.worker.status().workerId],
  );
  await eventually(() => shareOf(second) === 4);
  await eventually(() => spans.succeeded().then((done) => done === 300));

  expect(await spans.most()).toBe(4);
});

test("a worker without a share holds nothing, and takes over when there is one", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  await setLimit(app, 1);
  const first = await setup.startWorker(4);
  await eventually(() => first.worker.status().queues[0]?.share === 1);
  await spans.enqueue(40, 40);
  const second = await app.startWorkerProcess({ CONCURRENCY: "40" }, spanWorker);
  await eventually(() => first.worker.status().queues[0]?.share === 0);

  expect(first.worker.status().queues[0]).toMatchObject({
    waiting: 0,
    consumer: "paused",
    reason: "no share of the limit",
  });
  await spans.kill(second);

  await eventually(() => spans.succeeded().then((done) => done === 40));
  expect(await spans.most()).toBe(1);
});
