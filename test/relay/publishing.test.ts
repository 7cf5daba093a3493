import { expect, test } from "vitest";

import { eventually } from "../support/index.ts";
import { enqueue, inTransaction, isDrained, startHouse } from "./support.ts";

test("a committed job is published once, with its identity, headers and exact bytes", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  house.startRelay();

  const [id] = await inTransaction(house.database.pool, (client) =>
    enqueue(client, [
      { type: "welcome", body: '{"b":1, "a":[1.0,2]}', headers: { tenant: "t1" }, priority: 3 },
    ]),
  );

  await eventually(() => collected.messages.length > 0);
  await eventually(() => isDrained(house));
  expect(collected.messages).toEqual([
    expect.objectContaining({
      id,
      type: "welcome",
      body: '{"b":1, "a":[1.0,2]}',
      routingKey: "email",
    }),
  ]);
  expect(collected.messages[0]?.headers).toMatchObject({ tenant: "t1", "waybill-dispatch": 1 });
});

test("a queue that nobody has declared is declared with its dead-letter queue before its first message", async () => {
  await using house = await startHouse();
  house.startRelay();

  await enqueue(house.database.pool, [{ queue: "fresh" }]);

  await eventually(() => isDrained(house));
  const collected = await house.collect("fresh");
  await eventually(() => collected.messages.length === 1);
  expect(await house.collect("fresh.dlq")).toBeDefined();
});
