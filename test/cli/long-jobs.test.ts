/** What the command shows of jobs that take long: progress, checkpoints, cancels, and each change. */

import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { createMigratedDatabase, type TestDatabase } from "../support/index.ts";
import { runCli, startCli } from "./support.ts";
import { addWorker } from "../support/worker-row.ts";

interface Given extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly env: Readonly<Record<string, string>>;
  readonly id: string;
  /** Changes the inbox row, and tells those who watch, as a worker does. */
  set(changes: string): Promise<void>;
  report(stage: string, done: number | null, total: number | null): Promise<void>;
}

/** A job that a worker runs, written by hand. */
async function startRunningJob(): Promise<Given> {
  const database = await createMigratedDatabase();
  const [row] = await database.rows<{ id: string }>(
    `select id from waybill.enqueue('[{"type":"import.run","queue":"imports","payload":{}}]')`,
  );
  const id = row?.id ?? "";
  const owner = await addWorker(database, "worker-1", { queues: ["imports"] });
  await database.rows(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, owner, started_at, on_terminal)
     values ($1, 'imports', 'import.run', 'running', 1, 1, $2, now(), 'import.ended')`,
    [id, owner],
  );
  const tell = (): Promise<unknown> =>
    database.rows("select pg_notify('waybill.job', $1::text)", [id]);
  return {
    database,
    env: { DATABASE_URL: database.url },
    id,
    async set(changes) {
      await database.rows(`update waybill.inbox set ${changes} where id = $1`, [id]);
      await tell();
    },
    async report(stage, done, total) {
      await database.rows(
        `insert into waybill.progress (id, queue, attempt, stage, done, total) values ($1, 'imports', 1, $2, $3, $4)
         on conflict (id, queue) do update set stage = excluded.stage, done = excluded.done, total = excluded.total`,
        [id, stage, done, total],
      );
      await tell();
    },
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

test("a running job is shown with its progress, checkpoint, cancel request and event on end", async () => {
  await using given = await startRunningJob();
  const { database, env, id } = given;
  await given.report("reading \u001b[31mrows", 40, 120);
  await database.rows(
    `insert into waybill.checkpoint (id, queue, number, attempt, checkpoint) values ($1, 'imports', 7, 1, '{"row":40}')`,
    [id],
  );
  await runCli(["jobs", "cancel", id, "--yes", "--reason", "wrong file"], env);

  const shown = await runCli(["jobs", "show", id], env);
  const list = await runCli(["jobs", "list"], env);
  await database.rows("update waybill.worker set lease_until = now()");
  const stale = await runCli(["jobs", "show", id], env);
  const staleList = await runCli(["jobs", "list"], env);

  expect(shown.stdout).toMatch(/^progress +reading .*rows, 40 of 120 \(33 %\)$/m);
  expect(shown.stdout).toMatch(/^reported +\d{4}-/m);
  expect(shown.stdout).toMatch(/^checkpoint +\{"row":40\} \(number 7, by attempt 1, \d{4}-/m);
  expect(shown.stdout).toMatch(/^cancel asked +\d{4}-/m);
  expect(shown.stdout).toMatch(/^asked by +cli\S*: wrong file$/m);
  expect(shown.stdout).toMatch(/^event on end +import\.ended$/m);
  expect(shown.stdout).not.toMatch(/^stale|\u001b/m);
  expect(list.stdout).toMatch(/^id .* attempt +progress +enqueued/);
  expect(list.stdout).toMatch(/running +1 +reading .*rows, 40 of 120 \(33 %\)/);
  expect(stale.stdout).toMatch(/^stale +its worker's heartbeat has stopped/m);
  expect(staleList.stdout).toContain("running (stale)");
});

test("a cancelled job is shown with who cancelled it and why, and a list without progress has no column for it", async () => {
  await using given = await startRunningJob();
  const { env, id } = given;
  await given.database.rows("delete from waybill.inbox");
  await runCli(["jobs", "cancel", id, "--yes", "--reason", "wrong file"], env);

  const shown = await runCli(["jobs", "show", id], env);
  const list = await runCli(["jobs", "list"], env);

  expect(shown.stdout).toMatch(/^cancelled by +cli\S*: wrong file$/m);
  expect(list.stdout).not.toContain("progress");
});

test("watching a job prints a line for each change until it has succeeded", async () => {
  await using given = await startRunningJob();
  await using watch = await startCli(["jobs", "watch", given.id], given.env);

  await watch.waitForLine(/Z running, attempt 1$/);
  await given.report("reading", 40, 120);
  await watch.waitForLine(/Z running, attempt 1, reading, 40 of 120 \(33 %\)$/);
  await given.set("state = 'retry_waiting'");
  await watch.waitForLine(/Z retry_waiting, after attempt 1$/);
  await given.set("state = 'succeeded', attempt = 2, finished_at = now()");

  expect(await watch.exited).toEqual({ code: 0, signal: null });
  expect(watch.stdout).toHaveLength(4);
  expect(watch.stdout.at(-1)).toMatch(/Z succeeded, attempt 2$/);
  expect(watch.stderr).toEqual([]);
});

test("watching ends with 1 where the job fails or is cancelled, or where there is none", async () => {
  await using failing = await startRunningJob();
  await using cancelled = await startRunningJob();
  await using watch = await startCli(["jobs", "watch", failing.id, "--json"], failing.env);

  await watch.waitForLine('"state":"running"');
  await failing.database.rows(
    `insert into waybill.failure (id, queue, type, attempt, token, failure_class, message, fingerprint, terminal)
     values ($1, 'imports', 'import.run', 1, 1, 'validation', 'no such file', 'f1', true)`,
    [failing.id],
  );
  await failing.set("state = 'failed', finished_at = now()");
  const { code } = await watch.exited;
  await runCli(["jobs", "cancel", cancelled.id, "--yes", "--reason", "wrong file"], cancelled.env);
  await cancelled.set("state = 'cancelled', finished_at = now()");
  const late = await runCli(["jobs", "watch", cancelled.id], cancelled.env);
  const unknown = await runCli(["jobs", "watch", randomUUID()], cancelled.env);

  expect([code, late.code, unknown.code]).toEqual([1, 1, 1]);
  expect(JSON.parse(watch.stdout.at(-1) ?? "")).toMatchObject({
    id: failing.id,
    state: "failed",
    failureMessage: "no such file",
  });
  expect(late.stdout).toMatch(/^\S+Z cancelled, by cli\S*: wrong file$/);
  expect(unknown.stderr).toMatch(/Cannot find job/);
});
