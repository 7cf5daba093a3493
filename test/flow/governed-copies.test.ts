/** Copies of attempts that are over, in the backlog of a governed queue: they keep no later attempt from running. */

import { RetryAfterError } from "@waybill/core";
import { createQueues } from "@waybill/postgres";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { startFlow } from "./support/flow.ts";

test("a retry whose time comes while a copy of the attempt before waits in the backlog takes its place", async () => {
  await using flow = await startFlow({ priority: {} });
  const queues = createQueues({ database: flow.app.dataLayer });
  flow.startRelay();
  await flow.startWorker((job) => {
    if (job.attempt === 1) throw new RetryAfterError("later", 600_000);
  });
  const [id = ""] = await flow.enqueue(1);
  await eventually(async () =>
    expect(await flow.sql("select dispatch from waybill.timer")).toEqual([{ dispatch: 2 }]),
  );
  await queues.pause({ queue: "work" });
  // As a relay leaves it that dispatched the job again while the attempt ended.
  await flow.sql(
    `insert into waybill.backlog (id, queue, place, key, type, priority, dispatch, enqueued_at)
     values ($1, 'work', 1, '', 'flow.job', 0, 1, now())`,
    [id],
  );
  await flow.sql("insert into waybill.freed (queue, changed) values ('work', array[$1::uuid])", [
    id,
  ]);
  await eventually(async () => expect(await flow.sql("select n from waybill.freed")).toEqual([]));

  await flow.jobs.release(id);
  await eventually(async () =>
    expect(await flow.sql("select dispatch from waybill.backlog")).toEqual([{ dispatch: 2 }]),
  );
  await queues.resume({ queue: "work" });

  await flow.ended([id]);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});
