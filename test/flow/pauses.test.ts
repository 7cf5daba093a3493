import { expect, test } from "vitest";
import { createPool, eventually, startProxy } from "../support/index.ts";
import { type App, type RunningWorker, startApp } from "../worker/support/start-app.ts";
import { createSpans, handleSpans, setPaused, type Spans, spanJob } from "./support/spans.ts";

interface Setup extends AsyncDisposable {
  readonly app: App;
  readonly spans: Spans;
  startWorker(brokerUrl?: string): Promise<RunningWorker>;
}

async function setUp(): Promise<Setup> {
  const app = await startApp();
  const spans = await createSpans(app);
  const pool = createPool(app.database.url, 20);
  return {
    app,
    spans,
    startWorker: (brokerUrl) =>
      app.startWorker((worker) => handleSpans(worker, pool), {
        queues: { work: { concurrency: 2 } },
        ...(brokerUrl === undefined ? {} : { brokerUrl }),
      }),
    async [Symbol.asyncDispose]() {
      await app[Symbol.asyncDispose]();
      await pool.end();
    },
  };
}

const send = async ({ app }: Setup, count: number, ms: number): Promise<void> => {
  for (let n = 0; n < count; n += 1) await app.send(spanJob.name, { ms });
};
const stateOf = ({ worker }: RunningWorker): readonly unknown[] =>
  worker.status().queues.map(({ consumer, reason }) => [consumer, reason]);
const paused = [["paused", "queue paused"]];

test("a paused queue gives back what waits, and what runs goes on to its end", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  const running = await setup.startWorker();
  await send(setup, 8, 1_500);
  await eventually(() => running.worker.status().running === 2);

  await setPaused(app, true);
  await eventually(() => expect(stateOf(running)).toEqual(paused));
  await eventually(async () => expect(await app.courier.depth(`${app.vhost.prefix}.work`)).toBe(6));

  await eventually(() => spans.succeeded().then((done) => done === 2));
  expect(running.worker.status().queues[0]).toMatchObject({ running: 0, waiting: 0 });
  await setPaused(app, false);
  await eventually(() => spans.succeeded().then((done) => done === 8));
});

test("a queue that is paused stays paused for workers that start, and through a new connection to the broker", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  await setPaused(app, true);
  await send(setup, 3, 10);
  await using proxy = await startProxy(app.vhost.url);
  const child = await app.startWorker(
    (worker) => handleSpans(worker, app.database.pool),
    // The second queue shows when the worker consumes.
    {
      brokerUrl: proxy.url(app.vhost.url),
      queues: { work: { concurrency: 2 }, other: { concurrency: 1 } },
    },
  );

  proxy.cut();
  await eventually(() => expect(stateOf(child)[1]).not.toEqual(["consuming", undefined]));
  await eventually(() => expect(stateOf(child)[1]).toEqual(["consuming", undefined]));

  expect(stateOf(child)[0]).toEqual(paused[0]);
  expect(await app.courier.depth(`${app.vhost.prefix}.work`)).toBe(3);
  await setPaused(app, false);
  await eventually(() => spans.succeeded().then((done) => done === 3));
});

test("a queue whose tap is closed opens by itself when the time has come", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  const running = await setup.startWorker();
  await app.database.rows(
    "insert into waybill.queue (name, closed_until) values ('work', now() + interval '2 seconds')",
  );
  await eventually(() => expect(stateOf(running)).toEqual([["paused", "queue closed"]]));
  await send(setup, 2, 10);

  await eventually(() => spans.succeeded().then((done) => done === 2));

  const [row] = await app.database.rows<{ early: boolean }>(
    "select min(s.started) < q.closed_until as early from span as s, waybill.queue as q group by q.closed_until",
  );
  expect(row).toEqual({ early: false });
});

test("an outage of the database leaves a paused queue paused", async () => {
  await using setup = await setUp();
  const { app, spans } = setup;
  await using proxy = await startProxy(app.database.url);
  const running = await app.startWorker((worker) => handleSpans(worker, app.database.pool), {
    databaseUrl: proxy.url(app.database.url),
    leaseMs: 1_000,
  });
  await setPaused(app, true);
  await eventually(() => expect(stateOf(running)).toEqual(paused));

  proxy.refuse();
  proxy.cut();
  await send(setup, 2, 10);
  await eventually(() => running.worker.status().workerId === undefined);
  proxy.pass();
  await eventually(() => running.worker.status().workerId !== undefined);

  expect(stateOf(running)).toEqual(paused);
  expect(await spans.succeeded()).toBe(0);
  await setPaused(app, false);
  await eventually(() => spans.succeeded().then((done) => done === 2));
});
