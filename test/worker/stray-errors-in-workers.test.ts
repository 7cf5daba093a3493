import { expect, test } from "vitest";
import { eventually, type TestProcess } from "../support/index.ts";
import { type App, startApp } from "./support/start-app.ts";

const startStrayWorker = (
  app: App,
  env: Readonly<Record<string, string>> = {},
): Promise<TestProcess> =>
  app.startWorkerProcess(env, new URL("modules/stray-worker.ts", import.meta.url));

test.each([
  ["rejects in a forgotten promise and returns", "rejection", "stray", 0],
  ["rejects in a forgotten promise and commits", "transaction", "stray", 1],
  ["throws in an abort listener", "listener", expect.stringContaining("longer than 100 ms"), 0],
  ["throws in a timer", "timer", "stray", 0],
  ["throws in a timer and ignores its signal", "deaf", "stray", 0],
])(
  "G3: a job that %s fails, runs again, and costs its neighbour nothing",
  async (_how, type, message, effects) => {
    await using app = await startApp();
    await using worker = await startStrayWorker(app);
    const neighbour = await app.send("neighbour", {});
    await worker.waitForLine(`run neighbour ${neighbour}`);
    app.courier.start();

    const id = await app.enqueue(type, {});

    await eventually(async () =>
      expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 2, crashes: 0 }),
    );
    expect(
      await app.database.rows("select message, attempt from waybill.failure where id = $1", [id]),
    ).toEqual([{ message, attempt: 1 }]);
    expect(await app.effects(id)).toBe(effects);
    worker.writeLine("finish");
    await eventually(async () =>
      expect(await app.inbox(neighbour)).toMatchObject({ state: "succeeded", attempt: 1 }),
    );
    expect(worker.lines.filter((line) => line.startsWith("rejected"))).toEqual([]);
  },
);

test("G3: an error outside any job lets the running jobs end, and then the process, to be started anew", async () => {
  await using app = await startApp();
  await using worker = await startStrayWorker(app);
  const running = await app.send("neighbour", {});
  await worker.waitForLine(`run neighbour ${running}`);

  worker.writeLine("stray");
  await eventually(async () => {
    // The worker takes no more jobs.
    const waiting = await app.send("neighbour", {});
    expect(await app.courier.depth("waybill.work")).toBeGreaterThan(0);
    expect(await app.inbox(waiting)).toBeUndefined();
  });
  worker.writeLine("finish");

  expect(await worker.exited).toEqual({ code: 1, signal: null });
  expect(worker.stdout).toContain("rejected Error: stray");
  expect(await app.inbox(running)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 0 });
  expect(await app.effects(running)).toBe(1);
});

test("K2: a listener of the application that throws at the end of each attempt costs neither job nor worker anything", async () => {
  await using app = await startApp();
  await using worker = await startStrayWorker(app, { LISTENER: "1" });
  worker.writeLine("finish");
  const ids: string[] = [];
  for (let n = 0; n < 20; n += 1) ids.push(await app.send("neighbour", {}));

  await eventually(async () =>
    expect(
      await app.database.rows(
        "select attempt, crashes from waybill.inbox where state = 'succeeded'",
      ),
    ).toEqual(ids.map(() => ({ attempt: 1, crashes: 0 }))),
  );

  const late = await app.send("neighbour", {});
  await eventually(async () => expect(await app.inbox(late)).toMatchObject({ state: "succeeded" }));
  expect(await app.effects()).toBe(21);
  expect(worker.hasExited).toBe(false);
});
