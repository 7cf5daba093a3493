/** A12 of the public reports, on a broker of its own. */

import { expect, test } from "vitest";
import { startPrivateRabbitmq } from "../../../scripts/services/index.ts";
import { eventually } from "../../support/index.ts";
import { startLine } from "../../support/line.ts";
import {
  consuming,
  createLedger,
  look,
  queue,
  sentinel,
  writeEffect,
} from "../../public-bugs/support.ts";

test("A12, C8: relay and workers notice a frozen broker by themselves, and after it thaws each consumes once and nothing is lost", async () => {
  await using server = await startPrivateRabbitmq();
  await using line = await startLine({
    vhost: { rabbitmqUrl: server.url, managementUrl: server.managementUrl },
  });
  await createLedger(line);
  const relay = line.startRelay({ confirmTimeoutMs: 2_000 });
  const workers = [1, 2].map(() =>
    line.startWorker([queue], (it) =>
      it.handleInTransaction(sentinel, (job, tx) => writeEffect(tx, job)),
    ),
  );
  await Promise.all(workers.map(consuming));
  const enqueue = (count: number): Promise<unknown> =>
    line.transaction((tx) =>
      line.outbox.enqueueMany(
        tx,
        sentinel,
        Array.from({ length: count }, (_, n) => ({ payload: { n } })),
      ),
    );
  await enqueue(500);
  await eventually(() => relay.it.status().published > 100);

  await server.kill("SIGSTOP");
  await enqueue(500);
  // Confirms are missed after 2 s, heartbeats of consumers after 14 s.
  await eventually(
    () => {
      expect(relay.it.status().broker).toBe("connecting");
      for (const { it } of workers) {
        expect(it.status().queues).toMatchObject([{ consumer: "waiting" }]);
      }
    },
    { deadlineMs: 20_000 },
  );
  await server.kill("SIGCONT");

  await eventually(
    async () => {
      const { total } = await line.jobs.counts();
      expect(total).toMatchObject({ succeeded: 1_000, queued: 0, running: 0 });
      expect(await look(line)).toEqual({ ready: 0, consumers: 2 });
    },
    { deadlineMs: 30_000 },
  );
  expect(
    await line.database.rows("select from effect group by job_id having count(*) <> 1"),
  ).toEqual([]);
  expect(await line.database.rows("select from waybill.inbox where attempt <> 1")).toEqual([]);
}, 90_000);
