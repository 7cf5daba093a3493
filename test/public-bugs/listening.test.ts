/** Reports on hints of new jobs, as docs/reliability.md numbers them. */

import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { type Line, startLine } from "../support/line.ts";
import { queue, sentinel, sentinelRuns } from "./support.ts";

/** A login of its own for the relay, with the rights of the tables' owner, so that its connections can be limited. */
async function createLogin(line: Line) {
  const name = `waybill_test_${randomBytes(6).toString("hex")}`;
  const [owner] = await line.database.rows("select current_user as name");
  await line.database.rows(
    `create role ${name} login password 'p' in role "${String(owner?.["name"])}"`,
  );
  const url = new URL(line.database.url);
  url.username = name;
  url.password = "p";
  return {
    url: url.href,
    /** New connections are refused beyond `limit`; open ones stay. */
    limitTo: (limit: number) => line.database.rows(`alter role ${name} connection limit ${limit}`),
    [Symbol.asyncDispose]: async () => {
      await line.database.rows(`drop owned by ${name}`);
      await line.database.rows(`drop role ${name}`);
    },
  };
}

test("A36: while the relay's listener is dead and no connection is to be had jobs go on by polling, and afterwards hints wake it again", async () => {
  await using line = await startLine();
  await using login = await createLogin(line);
  const relay = line.startRelay({ databaseUrl: login.url, idlePollMs: 10_000 });
  const worker = line.startWorker([queue], (it) => it.handle(sentinel, () => undefined));
  await eventually(() => relay.it.status().wakeUp === "listening");

  await login.limitTo(0);
  const killed = await line.database.rows(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name like 'waybill-relay%'
       and (query ilike '%listen%' or query ilike '%pg_backend_pid%')`,
  );
  expect(killed.length).toBeGreaterThan(0);
  await eventually(() => relay.it.status().wakeUp === "polling", { intervalMs: 1 });
  for (let n = 0; n < 50; n += 1) await sentinelRuns(line);
  expect(relay.it.status()).toMatchObject({ state: "leading", wakeUp: "polling" });

  await login.limitTo(-1);
  await eventually(() => relay.it.status().wakeUp === "listening");
  await sentinelRuns(line);
  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, sentinel, { n: 1 }));
  // Without a hint the next look is 7.5 s away at least.
  await eventually(async () => (await line.jobs.get(jobId)).state === "succeeded", {
    deadlineMs: 5_000,
  });
  expect(relay.it.status()).toMatchObject({ state: "leading", wakeUp: "listening" });
  await worker.stop();
  await relay.stop();
});
