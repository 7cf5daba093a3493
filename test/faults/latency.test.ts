import { defineJob } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, startProxy } from "../support/index.ts";
import { startLine } from "../support/line.ts";

/** Each way, in milliseconds: half a second until an answer is here. */
const latencyMs = 250;

test("J5: with half a second of latency to both servers every job ends at its first attempt, and neither the term nor a lease is lost", async () => {
  const work = defineJob({ name: "work", queue: "work", payload: z.object({ n: z.int() }) });
  await using line = await startLine();
  await using toBroker = await startProxy(line.vhost.url);
  await using toDatabase = await startProxy(line.database.url);
  await line.database.rows("create table effect (n integer not null)");
  for (const way of [toBroker, toDatabase]) way.slow(latencyMs);
  const far = {
    databaseUrl: toDatabase.url(line.database.url),
    broker: { url: toBroker.url(line.vhost.url), prefix: line.vhost.prefix },
  };
  line.startRelay(far);
  line.startWorker(
    ["work"],
    (worker) =>
      worker.handleInTransaction(work, async ({ payload }, tx) => {
        await tx.query("insert into effect values ($1)", [payload.n]);
      }),
    { ...far, queues: { work: { concurrency: 20 } } },
  );
  const count = 500;

  await line.transaction((tx) =>
    line.outbox.enqueueMany(
      tx,
      work,
      Array.from({ length: count }, (_, n) => ({ payload: { n } })),
    ),
  );
  await eventually(
    async () => {
      const [row] = await line.database.rows<{ ended: number }>(
        "select count(*)::integer as ended from waybill.inbox where state = 'succeeded'",
      );
      return row?.ended === count;
    },
    { deadlineMs: 90_000 },
  );

  const [effects] = await line.database.rows(
    "select count(*)::integer as all, count(distinct n)::integer as different from effect",
  );
  const attempts = await line.database.rows(
    "select distinct attempt, crashes, dispatch from waybill.inbox",
  );
  const [relay] = await line.database.rows("select epoch::integer as epoch from waybill.relay");
  const [workers] = await line.database.rows(
    "select count(*)::integer as boots from waybill.worker",
  );
  expect({ effects, attempts, relay, workers }).toEqual({
    effects: { all: count, different: count },
    attempts: [{ attempt: 1, crashes: 0, dispatch: 1 }],
    relay: { epoch: 1 },
    workers: { boots: 1 },
  });
}, 120_000);
