import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { eventually, type TestProcess } from "../support/index.ts";
import { type App, startApp } from "./support/start-app.ts";

/** A file that lets blocked handlers go on. */
interface Gate extends AsyncDisposable {
  readonly path: string;
  open(): Promise<void>;
}

async function createGate(): Promise<Gate> {
  const folder = await mkdtemp(join(tmpdir(), "waybill-gate-"));
  const path = join(folder, "open");
  return {
    path,
    open: () => writeFile(path, ""),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

const startBlocking = (
  app: App,
  name: string,
  env: Readonly<Record<string, string>> = {},
): Promise<TestProcess> =>
  app.startWorkerProcess(
    { NAME: name, LEASE_MS: "1000", ...env },
    new URL("support/blocking-process.ts", import.meta.url),
  );

interface WorkerRow extends Record<string, unknown> {
  readonly id: string;
  readonly heartbeat_at: Date;
  readonly blocked_ms: number | null;
  readonly blocked_by: string | null;
  readonly alive: boolean;
}

const workersOf = (app: App, name: string): Promise<WorkerRow[]> =>
  app.database.rows<WorkerRow>(
    "select *, waybill.worker_alive(id) as alive from waybill.worker where name = $1 order by started_at desc",
    [name],
  );

/** Copies of a job, as a repair would send them. */
async function sendCopies(app: App, id: string, type: string): Promise<void> {
  for (const dispatch of [2, 3, 4, 5]) {
    await app.courier.dispatch({ id, type, queue: "work", dispatch });
  }
}

/** The fields of the first line of a log, past or future, that has this message. */
async function logged(worker: TestProcess, message: string): Promise<Record<string, unknown>> {
  const line = await worker.waitForLine((text) => text.includes(`"msg":"${message}"`));
  return JSON.parse(line) as Record<string, unknown>;
}

test("G2: a handler that blocks the event loop for many leases keeps its job, and the worker names it", async () => {
  await using app = await startApp();
  await using gate = await createGate();
  await using blocked = await startBlocking(app, "blocked", { UNTIL_FILE: gate.path });
  const id = await app.send("block", {});
  await blocked.waitForLine(`run block ${id}`);
  const [before] = await workersOf(app, "blocked");
  await using other = await startBlocking(app, "other");

  await sendCopies(app, id, "block");
  const row = await eventually(async () => {
    const [now] = await workersOf(app, "blocked");
    expect(now).toMatchObject({ id: before?.id, alive: true, blocked_by: `block ${id}` });
    expect(now?.blocked_ms).toBeGreaterThan(4_000);
    return now;
  });
  await gate.open();

  expect(row?.heartbeat_at).not.toEqual(before?.heartbeat_at);
  expect(await logged(blocked, "handler blocked the event loop")).toMatchObject({
    jobId: id,
    jobName: "block",
    blockedMs: expect.any(Number),
    stack: expect.stringContaining("blockUntilFileExists"),
  });
  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 0 }),
  );
  await eventually(async () =>
    expect(await workersOf(app, "blocked")).toMatchObject([
      { id: before?.id, alive: true, blocked_ms: null, blocked_by: null },
    ]),
  );
  expect(await app.effects(id)).toBe(1);
  expect(other.lines.filter((line) => line.startsWith("run "))).toEqual([]);
});

test("G2: a handler that blocks the event loop in native code is named when it comes back", async () => {
  await using app = await startApp();
  await using gate = await createGate();
  await using blocked = await startBlocking(app, "blocked", { UNTIL_FILE: gate.path });
  const id = await app.send("block.native", {});

  await eventually(async () => {
    const [row] = await workersOf(app, "blocked");
    expect(row?.blocked_ms).toBeGreaterThan(2_000);
  });
  await gate.open();

  expect(await logged(blocked, "handler blocked the event loop")).toMatchObject({
    jobId: id,
    jobName: "block.native",
    stack: expect.stringContaining("blockInNativeCode"),
  });
  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 0 }),
  );
  expect(await app.effects(id)).toBe(1);
});

test("G2: a handler that blocks the event loop for too long loses its job to another worker and cannot commit", async () => {
  await using app = await startApp();
  await using gate = await createGate();
  await using blocked = await startBlocking(app, "blocked", {
    UNTIL_FILE: gate.path,
    BLOCKED_MAX_MS: "2000",
  });
  const id = await app.send("block", {});
  await blocked.waitForLine(`run block ${id}`);
  const [before] = await workersOf(app, "blocked");
  await using other = await startBlocking(app, "other");

  const released = await logged(blocked, "event loop blocked for too long, worker lease released");
  await sendCopies(app, id, "block");
  app.courier.start();
  await other.waitForLine(`run block ${id}`);
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(await workersOf(app, "blocked")).toMatchObject([{ id: before?.id, alive: false }]);
  await gate.open();

  expect(released).toMatchObject({ workerId: before?.id, jobId: id, jobName: "block" });
  const [after] = await eventually(async () => {
    const rows = await workersOf(app, "blocked");
    expect(rows[0]).toMatchObject({ alive: true });
    return rows;
  });
  expect(after?.id).not.toBe(before?.id);
  expect(await logged(blocked, "worker lease lost")).toMatchObject({ workerId: before?.id });
  expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 1 });
  expect(await app.effects(id)).toBe(1);

  other.kill("SIGKILL");
  const next = await app.send("block", {});
  await blocked.waitForLine(`run block ${next}`);
  await eventually(async () => expect(await app.inbox(next)).toMatchObject({ state: "succeeded" }));
});

test("a worker that is killed while a handler blocks its event loop loses the job at once", async () => {
  await using app = await startApp();
  await using gate = await createGate();
  await using blocked = await startBlocking(app, "blocked", {
    UNTIL_FILE: gate.path,
    LEASE_MS: "600000",
  });
  const id = await app.enqueue("block", {});
  await app.courier.round();
  await blocked.waitForLine(`run block ${id}`);
  await using other = await startBlocking(app, "other");

  blocked.kill("SIGKILL");

  await other.waitForLine(`run block ${id}`);
  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 1 }),
  );
  expect(await app.effects(id)).toBe(1);
});
