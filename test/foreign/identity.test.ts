import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { startForeignLine, welcome } from "./foreign-line.ts";

const uuid = "8f7410f8-c626-43f3-aa5a-a22318f0e00a";
const body = '{"to":"ada@example.com"}';
const twoQueues = {
  queues: { emails: { concurrency: 5 }, letters: { concurrency: 5 } },
  jobs: { emails: ["emails.welcome", "emails.receipt"], letters: ["letters.welcome"] },
};

test("one message id under two types and in two queues is a job each", async () => {
  await using foreign = await startForeignLine(twoQueues);

  await foreign.send(
    { body, properties: { messageId: "order-42", type: "emails.welcome" } },
    { body, properties: { messageId: "order-42", type: "emails.receipt" } },
    { body, routingKey: "letters", properties: { messageId: "order-42", type: "letters.welcome" } },
  );
  const outcomes = await foreign.settled(3);

  expect(outcomes.map(({ queue, type, outcome }) => [queue, type, outcome])).toEqual([
    ["emails", "emails.receipt", "ran"],
    ["emails", "emails.welcome", "ran"],
    ["letters", "letters.welcome", "ran"],
  ]);
});

test("a UUID as message id is the job: once in each queue, in whatever form it is written", async () => {
  await using foreign = await startForeignLine(twoQueues);
  const forms = [uuid, uuid.toUpperCase(), uuid.replaceAll("-", "")];

  for (const messageId of [...forms, ...forms]) {
    await foreign.send({ body, properties: { messageId, type: "emails.welcome" } });
  }
  await foreign.send({
    body,
    routingKey: "letters",
    properties: { messageId: uuid, type: "letters.welcome" },
  });
  await foreign.settled(2);

  expect(await foreign.handled("emails.welcome")).toHaveLength(1);
  expect(await foreign.handled("letters.welcome")).toHaveLength(1);
});

test("C11: a message that is sent twice with one id, UUID or not, has one effect", async () => {
  await using foreign = await startForeignLine();

  for (const messageId of ["order-42", uuid]) {
    const message = { body, properties: { messageId, type: welcome.name } };
    await foreign.send(message, message, message);
  }
  await foreign.settled(2);
  await foreign.isAlive();

  expect(await foreign.handled()).toHaveLength(3);
});

test("messages whose id is unset, empty or all zeros are jobs of their own", async () => {
  await using foreign = await startForeignLine();

  for (const messageId of [undefined, "", "00000000-0000-0000-0000-000000000000"]) {
    const message = { body, properties: { messageId, type: welcome.name } };
    await foreign.send(message, message);
  }
  await foreign.settled(6);

  expect(await foreign.handled()).toHaveLength(6);
});

test("forged headers of Waybill's and of the broker's decide nothing", async () => {
  await using foreign = await startForeignLine();
  const headers = {
    "waybill-dispatch": { "!": "int64", value: 2 ** 52 },
    "waybill-death": 99,
    "waybill-attempts": 99,
    "waybill-version": "1",
    "waybill-ordering-key": "a\0b",
    "waybill-parked-at": "1970-01-01",
    "x-delivery-count": 1_000,
    __proto__: "x",
    constructor: "x",
    tenant: "acme",
  };

  await foreign.send({
    body,
    properties: { messageId: uuid, type: welcome.name, priority: 255, appId: "forged", headers },
  });
  const outcomes = await foreign.settled(1);

  expect(outcomes).toMatchObject([{ outcome: "ran" }]);
  expect(await foreign.line.database.rows("select attempt, dispatch from waybill.inbox")).toEqual([
    { attempt: 1, dispatch: 1 },
  ]);
});

test("H1: types named like members of every object have no handler and are parked", async () => {
  await using foreign = await startForeignLine();
  const types = ["constructor", "__proto__", "toString", "hasOwnProperty"];

  await foreign.send(...types.map((type) => ({ body, properties: { type } })));
  const outcomes = await foreign.settled(types.length);

  expect(outcomes.map(({ outcome }) => outcome)).toEqual(types.map(() => "parked"));
  await foreign.isAlive();
});

test("a Celery task with an eta waits for it and then runs once", async () => {
  await using foreign = await startForeignLine({
    queues: { emails: { concurrency: 5, decoder: "celery" } },
    jobs: { emails: [welcome.name] },
  });
  const eta = new Date(Date.now() + 1_500);

  await foreign.send({
    body: '[["ada@example.com"], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]',
    properties: { headers: { task: welcome.name, id: uuid, eta: eta.toISOString() } },
  });
  const [timer] = await eventually(async () => {
    const rows = await foreign.line.database.rows<{ id: string; fire_at: Date }>(
      "select id, fire_at from waybill.timer where reason = 'delay'",
    );
    return rows.length > 0 && rows;
  });
  await foreign.settled(1);

  expect(timer).toEqual({ id: uuid, fire_at: eta });
  expect(await foreign.handled()).toEqual(['{"args":["ada@example.com"],"kwargs":{}}']);
  const [row] = await foreign.line.database.rows<{ started_at: Date }>(
    "select started_at from waybill.inbox",
  );
  expect(row?.started_at.getTime()).toBeGreaterThanOrEqual(eta.getTime());
});
