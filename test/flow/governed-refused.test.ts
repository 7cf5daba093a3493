/** Jobs in slots that the broker does not take. */

import { names } from "@waybill/rabbitmq";
import { expect, test } from "vitest";
import { connected, onChannel } from "../rabbitmq/support.ts";
import { eventually } from "../support/index.ts";
import { startFlow } from "./support/flow.ts";

test("C4: heads of ordering keys that come back from the broker unroutable go when there is a way again, in their order", async () => {
  await using flow = await startFlow({ order: {} });
  flow.startRelay();
  await flow.startWorker((job) => flow.note(job));
  await flow.ended(await flow.enqueue(1));
  const { prefix, url } = flow.app.vhost;
  await using broker = await connected(url);
  const at = names(prefix);

  await onChannel(broker, (channel) =>
    channel.unbindQueue(at.queueName("work"), at.jobsExchange, "work"),
  );
  const ids = await flow.enqueue(4, (n) => ({ orderingKey: `o${n % 2}` }));
  await eventually(async () =>
    expect(await flow.sql("select from waybill.timer where reason = 'unroutable'")).not.toEqual([]),
  );

  await flow.ended(ids);
  for (const odd of [0, 1]) {
    const order = flow
      .starts()
      .flatMap(({ id, n }) => (ids.includes(id) && n % 2 === odd ? [n] : []));
    expect(order).toEqual([odd, odd + 2]);
  }
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});
