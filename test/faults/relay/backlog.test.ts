import { expect, test } from "vitest";

import { eventually } from "../../support/index.ts";
import { depth, isDrained, startHouse } from "../../relay/support.ts";

/** Rows written by one statement, as another program's backlog: enqueue would take its time. */
const backlog = (rows: number, bytes: number): string => `
  insert into waybill.outbox (id, kind, queue, type, payload, ordering_key)
  select waybill.new_id(), 'job', 'email', 't', to_json(n || repeat('x', ${bytes}))::text,
    case when n % 4 = 0 then 'key-' || n % 100 end
  from generate_series(1, ${rows}) as n`;

test("B9: a backlog of 60,000 rows is published page by page, in memory that does not grow with it", async () => {
  await using house = await startHouse();
  await house.declare("email");
  await house.database.rows(backlog(60_000, 300));
  const relay = house.startRelay({ batchSize: 500 });
  let most = 0;

  await eventually(
    async () => {
      most = Math.max(most, relay.it.status().unsettled);
      return await isDrained(house);
    },
    { deadlineMs: 60_000 },
  );

  expect(relay.it.status()).toMatchObject({ published: 60_000, parked: 0 });
  expect(await depth(house, "email")).toBe(60_000);
  expect(most).toBeLessThanOrEqual(2_500);
}, 90_000);

test("J3: large payloads are read in pages of few bytes, so that no page holds more than the limit and one row", async () => {
  await using house = await startHouse();
  await house.declare("email");
  await house.database.rows(backlog(120, 250_000));
  const relay = house.startRelay({ batchSize: 1_000, batchBytes: 1_000_000 });
  let most = 0;

  await eventually(async () => {
    most = Math.max(most, relay.it.status().unsettled);
    return await isDrained(house);
  });

  expect(relay.it.status().published).toBe(120);
  expect(most).toBeLessThanOrEqual(3 * 5);
});
