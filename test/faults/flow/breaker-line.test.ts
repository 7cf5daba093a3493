/** A dependency goes down and comes back, seen through the whole line. */

import { defineDependency, defineJob } from "@waybill/core";
import { createDependencies, pgDatabase } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../../support/index.ts";
import { type App, startApp } from "../../worker/support/start-app.ts";

const paymentsApi = defineDependency({
  name: "payments-api",
  minimum: 5,
  windowMs: 600_000,
  openMs: 1_500,
  openMaxMs: 1_500,
});
const charge = defineJob({
  name: "charge",
  queue: "work",
  payload: z.object({}),
  retry: { maxAttempts: 100, initialDelayMs: 10, maxDelayMs: 50 },
  dependsOn: ["payments-api"],
});
const note = defineJob({ name: "note", queue: "work", payload: z.object({}) });

/** When the breaker went to a state, by the clock of this machine. */
const timesOf = async (app: App, state: string): Promise<readonly number[]> =>
  (await createDependencies({ database: pgDatabase(app.database.pool) }).history("payments-api"))
    .filter((event) => event.state === state)
    .map(({ at }) => at.getTime())
    .toReversed();

test("F5: while a dependency is down its jobs wait without spending attempts, one probe at a time goes, other jobs go on, and all end when it is back", async () => {
  await using app = await startApp();
  await app.startRelayProcess();
  const starts: number[] = [];
  let isDown = true;
  await app.startWorker(
    (worker) => {
      worker.handle(charge, () => {
        starts.push(Date.now());
        if (isDown) throw Object.assign(new Error("no answer"), { code: "ECONNREFUSED" });
      });
      worker.handle(note, () => undefined);
    },
    { dependencies: [paymentsApi], queues: { work: { concurrency: 5 } } },
  );
  const ids: string[] = [];
  for (let n = 0; n < 60; n += 1) ids.push(await app.enqueue("charge", {}));

  await eventually(async () => (await timesOf(app, "half_open")).length >= 3, {
    deadlineMs: 60_000,
  });
  const other = await app.enqueue("note", {});
  await eventually(async () => (await app.inbox(other))?.state === "succeeded");
  const before = starts.length;
  const probes = await timesOf(app, "half_open");
  const [firstProbeAt = 0] = probes;
  const probed = starts.slice(0, before).filter((at) => at >= firstProbeAt).length;
  isDown = false;
  await eventually(
    async () => {
      const entries = await Promise.all(ids.map((id) => app.inbox(id)));
      return entries.every((entry) => entry?.state === "succeeded");
    },
    { deadlineMs: 60_000 },
  );

  // At most one each time it was half open.
  expect(probed).toBeLessThanOrEqual(probes.length);
  expect(await timesOf(app, "closed")).toHaveLength(1);
  const [row] = await app.database.rows<{ attempts: string }>(
    "select sum(attempt) as attempts from waybill.inbox where type = 'charge'",
  );
  // What waited has cost nothing: each attempt that is counted has run.
  expect(Number(row?.attempts)).toBe(starts.length);
  await eventually(async () => {
    const [left] = await app.database.rows(
      "select (select count(*) from waybill.slot)::int as slots, (select count(*) from waybill.backlog)::int as backlog",
    );
    expect(left).toEqual({ slots: 0, backlog: 0 });
  });
});
