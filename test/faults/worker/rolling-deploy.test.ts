import type { Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { eventually } from "../../support/index.ts";
import { type Line, type Running, startLine } from "../../support/line.ts";
import { payloads, releases } from "../../worker/support/payment-releases.ts";

/** Starts a worker of a release; resolves when it consumes. */
async function join(
  line: Line,
  version: number,
  paidBy: Map<string, string>,
): Promise<Running<Worker<PoolClient>>> {
  const running = line.startWorker([], (worker) => releases[version]?.(worker, paidBy), {
    queues: { work: { concurrency: 10 } },
  });
  await eventually(() =>
    running.it.status().queues.some(({ consumer }) => consumer === "consuming"),
  );
  return running;
}

/** Parked messages come back now and not in half a minute, to whoever is there. */
const hurry = (line: Line): Promise<unknown[]> =>
  line.database.rows(
    "update waybill.timer set fire_at = clock_timestamp() where reason = 'no_handler'",
  );

test("H2: a rolling deploy of two new versions, with producers of all three, loses no job and spends no attempt", async () => {
  await using line = await startLine();
  const { database } = line;
  await database.rows("create table effect (job_id uuid not null, attempt integer not null)");
  const paidBy = new Map<string, string>();
  const fleet: Running<Worker<PoolClient>>[] = [];
  for (let n = 0; n < 3; n += 1) fleet.push(await join(line, 1, paidBy));
  line.startRelay({ idlePollMs: 50 });
  let enqueued = 0;
  const produce = async (...versions: number[]): Promise<void> => {
    for (const version of versions) {
      const one = { type: "order.pay", queue: "work", version, payload: payloads[version] };
      await database.rows("select id from waybill.enqueue($1::jsonb)", [
        JSON.stringify(Array.from({ length: 200 }, () => one)),
      ]);
      enqueued += 200;
    }
    await hurry(line);
  };

  await produce(1, 1);
  for (const next of [2, 3]) {
    // New producers come first, so that old workers meet what they do not know.
    for (const [n, old] of [...fleet].entries()) {
      await produce(1, next, next - 1);
      fleet[n] = await join(line, next, paidBy);
      await produce(next);
      await old.stop();
    }
  }
  await produce(3, 2, 1);

  await eventually(
    async () => {
      await hurry(line);
      const rows = await database.rows(
        "select state, attempt, crashes, count(*)::int from waybill.inbox group by 1, 2, 3",
      );
      expect(rows).toEqual([{ state: "succeeded", attempt: 1, crashes: 0, count: enqueued }]);
    },
    { deadlineMs: 90_000, intervalMs: 200 },
  );
  expect(enqueued).toBe(5_800);
  expect(paidBy.size).toBe(enqueued);
  expect(new Set(paidBy.values())).toEqual(new Set(["Ada Lovelace 1250"]));
  expect(
    await database.rows(
      "select count(*)::int as effects, count(distinct job_id)::int as jobs from effect",
    ),
  ).toEqual([{ effects: enqueued, jobs: enqueued }]);
  for (const table of ["failure", "dead_letter"]) {
    expect(await database.rows(`select from waybill.${table}`)).toEqual([]);
  }
  // The copies of what the last worker has handed back are due 10 s later.
  await eventually(async () =>
    expect(await database.rows("select from waybill.timer")).toEqual([]),
  );
});
