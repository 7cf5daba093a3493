import { expect, test } from "vitest";

import { enqueue, isDrained, startHouse } from "../relay/support.ts";
import { eventually } from "../support/index.ts";
import { startPgBouncer } from "./pgbouncer.ts";

test("A35, E9: a relay behind a transaction pooler polls, fires timers and publishes everything once, byte for byte", async () => {
  await using house = await startHouse();
  await using pooler = await startPgBouncer(house.database.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const relay = house.startRelay({ databaseUrl: pooler.url, batchSize: 30 });
  const bodies = ['{"b":1, "a":[1.0,2]}', '"text"', "1.50", "null", "[]", '{"é":"🚚"}'];
  const sent: string[] = [];

  for (let n = 0; n < 60; n += 1) {
    const body = bodies[n % bodies.length];
    const late = n % 10 === 0 ? { delay_ms: 100 } : { ordering_key: `key-${n % 3}` };
    const ids = await enqueue(house.database.pool, [{ body, ...late }]);
    sent.push(...ids.map((id) => `${id} ${body}`));
  }

  await eventually(() => collected.messages.length === 60);
  await eventually(() => isDrained(house));
  expect(collected.messages.map(({ id, body }) => `${id} ${body}`).sort()).toEqual(sent.sort());
  expect(relay.it.status()).toMatchObject({ state: "leading", wakeUp: "polling", republished: 0 });
  await relay.stop();
});
