/** A backlog that is longer than what a relay keeps of it in memory, while more comes. */

import { createQueues } from "@waybill/postgres";
import { expect, test } from "vitest";
import { eventually } from "../../support/index.ts";
import { type Flow, flowJob, startFlow } from "../../flow/support/flow.ts";

/** Enqueues so many in one transaction. */
async function enqueueAll(flow: Flow, count: number): Promise<readonly string[]> {
  const receipts = await flow.app.dataLayer.transaction((tx) =>
    flow.outbox.enqueueMany(
      tx,
      flowJob,
      Array.from({ length: count }, (_, n) => ({ payload: { n, ms: 0 } })),
    ),
  );
  return receipts.map(({ jobId }) => jobId);
}

test("jobs that come while the backlog of their lane is read on are not left in it", async () => {
  await using flow = await startFlow({ priority: {} });
  const queues = createQueues({ database: flow.app.dataLayer });
  flow.startRelay();
  await flow.startWorker(() => undefined);
  await queues.pause({ queue: "work" });
  const first = await enqueueAll(flow, 4_000);
  await eventually(async () =>
    expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 4_000 }),
  );
  await queues.resume({ queue: "work" });
  const later: string[] = [];
  // As long as the backlog has more than fits into memory, each of these finds its lane cut.
  while ((await flow.leftovers()).backlog > 200) later.push(...(await enqueueAll(flow, 5)));
  await flow.ended([...first, ...later]);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});
