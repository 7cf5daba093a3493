/** PostgreSQL runs out of space. Needs the right to mount a small tmpfs, as root has it. */

import { execFile } from "node:child_process";
import { chown, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { defineJob } from "@waybill/core";
import { sqlStateOf } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";
import { startPrivatePostgres } from "../../scripts/services/index.ts";
import { serverDirectory, serverUser } from "../../scripts/services/system-user.ts";
import { createPool, eventually } from "../support/index.ts";
import { startApp, writeEffect } from "../worker/support/start-app.ts";

const execute = promisify(execFile);
const job = defineJob({
  name: "effect",
  queue: "work",
  payload: z.object({ text: z.string() }),
  retry: { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 1 },
});

/** A file system of 64 MB for a tablespace, and what fills it. */
async function mountSmall(): Promise<
  AsyncDisposable & {
    readonly path: string;
    /** Leaves no block free. */
    fill(): Promise<void>;
    /** Takes what filled it away. */
    free(): Promise<void>;
  }
> {
  const user = serverUser(["postgres"]);
  const directory = serverDirectory("small", user);
  await execute("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", directory]);
  if (user !== undefined) await chown(directory, user.uid, user.gid);
  const ballast = join(directory, "ballast");
  return {
    path: directory,
    async fill() {
      const { bavail, bsize } = await statfs(directory);
      await writeFile(ballast, Buffer.alloc(bavail * bsize));
    },
    free: () => rm(ballast),
    async [Symbol.asyncDispose]() {
      await execute("umount", ["--lazy", directory]);
      await rm(directory, { recursive: true });
    },
  };
}

test("J1: while the database's disk is full producers hear of it, nothing is acked for which there is no record, and all goes on when there is space", async () => {
  await using disk = await mountSmall();
  await using server = await startPrivatePostgres({ settings: { default_tablespace: "small" } });
  const administrator = createPool(server.url, 1);
  await administrator.query(`create tablespace small location '${disk.path}'`);
  await administrator.end();
  await using app = await startApp({ serverUrl: server.url });
  await using _relay = await app.startRelayProcess();
  await using running = await app.startWorker((worker) =>
    worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
  );
  const text = "x".repeat(4_000);
  const committed: string[] = [];
  const refused: unknown[] = [];
  const produce = async (): Promise<void> => {
    try {
      committed.push(await app.enqueue("effect", { text }));
    } catch (error) {
      refused.push(error);
    }
  };
  for (let n = 0; n < 100; n += 1) await produce();
  await eventually(async () => expect(await app.effects()).toBe(100));

  await disk.fill();
  await eventually(async () => {
    await produce();
    expect(refused.length).toBeGreaterThan(50);
  });
  await disk.free();
  for (let n = 0; n < 100; n += 1) await produce();

  await eventually(
    async () => {
      expect(
        await app.database.rows(
          "select from waybill.inbox where state = 'succeeded' and attempt = 1",
        ),
      ).toHaveLength(committed.length);
      expect(await app.courier.depth("waybill.work")).toBe(0);
    },
    { deadlineMs: 90_000 },
  );
  expect(new Set(refused.map(sqlStateOf))).toEqual(new Set(["53100"]));
  expect(await app.database.rows("select id from waybill.outbox group by id")).toHaveLength(
    committed.length,
  );
  expect(
    await app.database.rows("select from effect group by job_id having count(*) <> 1"),
  ).toEqual([]);
  expect(await app.effects()).toBe(committed.length);
  expect(running.worker.status().database).toBe("available");
});
