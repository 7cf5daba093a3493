/** Workers that are asked to stop, by signals and through the database, as processes of their own. */

import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { logOf, moduleOf, type Place, startPlace } from "./place.ts";
import { runCli, startCli } from "./support.ts";

/** Holds what the handler of slow.ts waits for, until it is let go. */
async function holdHandlers(place: Place): Promise<{ release(): Promise<void> }> {
  const holder: PoolClient = await place.database.pool.connect();
  await holder.query("select pg_advisory_lock(1)");
  return {
    async release() {
      await holder.query("select pg_advisory_unlock(1)");
      holder.release();
    },
  };
}

const stateOf = async ({ database }: Place, id: string): Promise<unknown> =>
  (await database.rows("select state, attempt from waybill.job where id = $1", [id]))[0];

test("a drained worker finishes its job, takes no other, and stays until it is restarted", async () => {
  await using place = await startPlace();
  await using _relay = await startCli(["relay"], place.env);
  await using worker = await startCli(
    ["worker", moduleOf("slow.ts"), "--name", "worker-1"],
    place.env,
  );
  const held = await holdHandlers(place);
  await place.enqueue("ada@example.com");
  await worker.waitForLine("handling ada@example.com");

  await using drain = await startCli(
    ["workers", "drain", "worker-1", "--yes", "--wait", "10m"],
    place.env,
  );
  await worker.waitForLine("worker draining");
  const second = await place.enqueue("bob@example.com");
  await held.release();
  await drain.waitForLine(/^worker-1 \S{8} drained$/);
  const drained = await drain.exited;
  const waiting = await stateOf(place, second);
  await using _other = await startCli(["worker", moduleOf("slow.ts")], place.env);
  await eventually(async () => (await place.sent()).length === 2);

  expect(drained.code).toBe(0);
  expect(waiting).toEqual({ state: "queued", attempt: 0 });
  expect(worker.lines.join("\n")).not.toContain("handling bob@example.com");
  expect(worker.hasExited).toBe(false);

  const restart = await runCli(
    ["workers", "restart", "worker-1", "--yes", "--wait", "20s"],
    place.env,
  );
  expect(restart.code).toBe(0);
  expect((await worker.exited).code).toBe(0);
});

test("a worker that is asked to restart finishes its job and ends with 0, and says who asked", async () => {
  await using place = await startPlace();
  await using _relay = await startCli(["relay"], place.env);
  await using worker = await startCli(
    ["worker", moduleOf("slow.ts"), "--name", "worker-1", "--grace", "10m"],
    place.env,
  );
  const held = await holdHandlers(place);
  const id = await place.enqueue("ada@example.com");
  await worker.waitForLine("handling ada@example.com");

  await using restart = await startCli(
    ["workers", "restart", "--all", "--yes", "--wait", "10m"],
    place.env,
  );
  await worker.waitForLine("worker ends by itself");
  await held.release();
  await worker.waitForLine("worker stopped");
  await restart.waitForLine(/^worker-1 \S{8} ended$/);

  expect(await worker.exited).toEqual({ code: 0, signal: null });
  expect((await restart.exited).code).toBe(0);
  expect(logOf(worker)).toContainEqual(
    expect.objectContaining({ reason: expect.stringMatching(/^cli\S* asked for a restart$/) }),
  );
  expect(await stateOf(place, id)).toEqual({ state: "succeeded", attempt: 1 });
  expect(await place.sent()).toEqual(["ada@example.com"]);
});

test("a worker that is hurried hands its job back at once, without spending the attempt", async () => {
  await using place = await startPlace();
  await using _relay = await startCli(["relay"], place.env);
  await using worker = await startCli(["worker", moduleOf("slow.ts"), "--grace", "10m"], place.env);
  const held = await holdHandlers(place);
  const id = await place.enqueue("ada@example.com");
  await worker.waitForLine("handling ada@example.com");

  worker.kill("SIGTERM");
  await worker.waitForLine("stopping, send the signal again");
  worker.kill("SIGTERM");
  await worker.waitForLine("grace is cut short");
  const exit = await worker.exited;
  const after = await place.database.rows<{ state: string }>(
    "select state from waybill.job where id = $1",
    [id],
  );
  await held.release();
  await using _other = await startCli(["worker", moduleOf("slow.ts")], place.env);
  await eventually(async () => {
    expect(await stateOf(place, id)).toEqual({ state: "succeeded", attempt: 1 });
  });

  expect(exit).toEqual({ code: 0, signal: null });
  expect(after).not.toEqual([{ state: "running" }]);
  expect(await place.sent()).toEqual(["ada@example.com"]);
});
