import { expect, test } from "vitest";
import { eventually, type ProcessExit, type TestProcess } from "../../support/index.ts";
import { randomFrom, seedOf } from "../../support/random.ts";
import type { App } from "../../worker/support/start-app.ts";
import {
  endSteps,
  startStepApp,
  startStepWorker,
  wrongSteps,
} from "../../worker/support/step-workers.ts";

const succeeded = async (app: App): Promise<number> => {
  const rows = await app.database.rows("select from waybill.inbox where state = 'succeeded'");
  return rows.length;
};

test.each([
  ["before its checkpoint is saved", "effect", 6],
  ["between its checkpoint and the commit", "checkpoint", 6],
  ["right after the commit", "commit", 7],
])(
  "a worker killed %s leaves a job that resumes where the last commit was",
  async (_when, place, from) => {
    await using app = await startStepApp();
    const dying = startStepWorker(app, { KILL_AFTER: "7", KILL_PLACE: place });
    const id = await app.enqueue("steps", { steps: 12 });
    await using other = await dying;
    await app.courier.round();
    await other.exited;
    expect(await wrongSteps(app, [id], from)).toEqual([]);

    await using heir = await startStepWorker(app);
    await heir.waitForLine(`${id} from ${from}`);
    await eventually(async () =>
      expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 1 }),
    );
    expect(await wrongSteps(app, [id], 12)).toEqual([]);
  },
);

test("two hundred steps with fifteen kills anywhere are done once each", async () => {
  const random = randomFrom(seedOf("steps with kills"));
  const places = ["before", "effect", "checkpoint", "commit"];
  const steps = 200;
  await using app = await startStepApp();
  app.courier.start({ hurry: true });
  await using processes = new AsyncDisposableStack();
  const alive = new Set<Promise<unknown>>();
  const start = async (env: Readonly<Record<string, string>>): Promise<void> => {
    const child = processes.use(await startStepWorker(app, env));
    const exited: Promise<unknown> = child.exited.then(() => alive.delete(exited));
    alive.add(exited);
  };
  const id = await app.enqueue("steps", { steps });

  // Half of the jobs' time it holds no delivery: a fresh process is there at once.
  for (let kill = 0; kill < 15; kill += 1) {
    if (alive.size >= 3) await Promise.race(alive);
    await start({
      KILL_AFTER: String(1 + Math.floor(random() * 13)),
      KILL_PLACE: places[Math.floor(random() * places.length)] ?? "before",
      HOLD_MS: random() < 0.5 ? "1000" : "60000",
    });
  }
  await Promise.all(alive);
  expect(await app.inbox(id)).toMatchObject({ state: "running", crashes: 14 });
  await start({});

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(await app.inbox(id)).toMatchObject({ attempt: 1, crashes: 15 });
  expect(await wrongSteps(app, [id], steps)).toEqual([]);
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
}, 300_000);

/** Asks a worker to stop, and kills it where it does not within `milliseconds`. */
async function stopOrKill(worker: TestProcess, milliseconds: number): Promise<ProcessExit> {
  worker.kill("SIGTERM");
  const timer = setTimeout(() => worker.kill("SIGKILL"), milliseconds);
  const exit = await worker.exited;
  clearTimeout(timer);
  return exit;
}

test("H3: rolling restarts in the middle of long jobs lose none, double no step, and are no crashes", async () => {
  await using app = await startStepApp();
  app.courier.start();
  await using processes = new AsyncDisposableStack();
  const env = { GRACE_MS: "200", HOLD_MS: "1000", CONCURRENCY: "5" };
  const start = async (): Promise<TestProcess> => processes.use(await startStepWorker(app, env));
  const fleet = await Promise.all([start(), start()]);
  const ids: string[] = [];
  for (let n = 0; n < 8; n += 1) {
    ids.push(await app.enqueue("steps", { steps: 1_000_000, pauseMs: 50 }));
  }

  for (let restart = 0; restart < 20; restart += 2) {
    const fresh = await Promise.all([start(), start()]);
    const old = fleet.splice(0);
    fleet.push(...fresh);
    // One after the other, as a rolling deploy does; what they hand back in time is no crash.
    for (const worker of old) {
      expect(await stopOrKill(worker, 60_000)).toEqual({ code: 0, signal: null });
    }
  }
  expect(
    await app.database.rows("select state from waybill.inbox where crashes = 0 and attempt <= 1"),
  ).toHaveLength(ids.length);

  // These are killed while they stop.
  for (let restart = 0; restart < 4; restart += 1) {
    const fresh = await start();
    const old = fleet.shift();
    fleet.push(fresh);
    if (old !== undefined) await stopOrKill(old, restart * 100);
  }

  await endSteps(app);
  await eventually(async () => expect(await succeeded(app)).toBe(ids.length));
  expect(await wrongSteps(app, ids)).toEqual([]);
  expect(
    await app.database.rows("select from waybill.inbox where crashes > 4 or attempt > 1"),
  ).toEqual([]);
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
  await eventually(async () => {
    expect(await app.courier.depth("waybill.work")).toBe(0);
    expect(await app.database.rows("select from waybill.timer")).toEqual([]);
  });
}, 230_000);
