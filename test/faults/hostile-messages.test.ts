/** What anybody may put into a queue, against a worker in a process of its own: S3. */

import { execFileSync } from "node:child_process";
import { newJobId } from "@waybill/core";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { startApp } from "../worker/support/start-app.ts";
import { hostileMessages } from "./hostile-messages.ts";

/** Memory of a process, in MiB. */
const residentMiB = (pid: number): number =>
  Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) / 1_024;

/** Far less than the 2 GiB that one of the compressed bodies would take if it were unpacked. */
const grownMiBMax = 600;

test("S3: each of 200 hostile messages is dead-lettered with its reason, once; the worker lives, stays small, and runs the good ones among them", async () => {
  expect(hostileMessages.length).toBeGreaterThanOrEqual(200);
  await using app = await startApp();
  const worker = await app.startWorkerProcess();
  const ids = new Map<string, string>();
  const good: string[] = [];
  const atStart = residentMiB(worker.pid);
  let most = atStart;

  for (const [n, { family, content, properties }] of hostileMessages.entries()) {
    const messageId = newJobId();
    ids.set(messageId, `${n} ${family}`);
    await app.courier.publish({
      routingKey: "waybill.work",
      content,
      properties: { ...properties, messageId, type: "strict" },
    });
    if (n % 10 !== 0) continue;
    good.push(await app.send("strict", { n }));
    most = Math.max(most, residentMiB(worker.pid));
  }

  await eventually(
    async () => {
      most = Math.max(most, residentMiB(worker.pid));
      const ended = await app.database.rows<{ id: string; state: string }>(
        "select id, state from waybill.inbox where state in ('succeeded', 'failed')",
      );
      expect(ended).toHaveLength(ids.size + good.length);
    },
    { deadlineMs: 240_000, intervalMs: 200 },
  );
  const dead = await app.database.rows<{ id: string; failure_class: string; message: string }>(
    "select id, failure_class, message from waybill.dead_letter",
  );
  const alive = dead.map(({ id }) => id);
  expect([...ids].filter(([id]) => !alive.includes(id)).map(([, what]) => what)).toEqual([]);
  expect(dead).toHaveLength(ids.size);
  for (const { id, failure_class: failureClass, message } of dead) {
    expect(["undecodable", "validation"], ids.get(id)).toContain(failureClass);
    expect(message, ids.get(id)).toMatch(/\S/);
    expect(message.length, ids.get(id)).toBeLessThanOrEqual(2_048);
    expect(message, ids.get(id)).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f]/);
  }
  for (const id of good) expect(await app.effects(id)).toBe(1);
  expect(worker.hasExited).toBe(false);
  expect(await app.courier.depth("waybill.work")).toBe(0);
  expect(most - atStart).toBeLessThan(grownMiBMax);
}, 400_000);
