import { NameError } from "@waybill/core";
import { expect, test } from "vitest";

import { definitionsOf, hashPassword } from "./definitions.ts";
import { names, topologyOf } from "./topology.ts";

test("a queue has the names and arguments that the architecture lists, and no others", () => {
  expect(topologyOf({ queues: ["email"] })).toEqual({
    prefix: "waybill",
    exchanges: [
      { name: "waybill.jobs", type: "topic" },
      { name: "waybill.dlx", type: "direct" },
      { name: "waybill.events", type: "topic" },
    ],
    queues: [
      {
        name: "waybill.email.dlq",
        queue: "email",
        role: "deadLetter",
        arguments: { "x-queue-type": "quorum", "x-delivery-limit": 1_000_000 },
      },
      {
        name: "waybill.email",
        queue: "email",
        role: "work",
        arguments: {
          "x-queue-type": "quorum",
          "x-dead-letter-exchange": "waybill.dlx",
          "x-dead-letter-routing-key": "email",
          "x-dead-letter-strategy": "at-least-once",
          "x-overflow": "reject-publish",
          "x-delivery-limit": 50,
        },
      },
    ],
    bindings: [
      { exchange: "waybill.dlx", queue: "waybill.email.dlq", routingKey: "email" },
      { exchange: "waybill.jobs", queue: "waybill.email", routingKey: "email" },
    ],
  });
});

test("a subscription receives its events, and of the jobs exchange its own name only", () => {
  const { queues, bindings } = topologyOf({
    prefix: "shop",
    queues: [],
    subscriptions: [
      { subscription: "billing", events: ["order.placed", "order.paid"] },
      { subscription: "billing", events: ["order.placed"] },
    ],
  });

  expect(queues.map(({ name }) => name)).toEqual(["shop.billing.dlq", "shop.billing"]);
  expect(bindings).toEqual([
    { exchange: "shop.dlx", queue: "shop.billing.dlq", routingKey: "billing" },
    { exchange: "shop.jobs", queue: "shop.billing", routingKey: "billing" },
    { exchange: "shop.events", queue: "shop.billing", routingKey: "order.placed" },
    { exchange: "shop.events", queue: "shop.billing", routingKey: "order.paid" },
  ]);
});

test("classic queues carry no argument that only quorum queues know", () => {
  const { queues } = topologyOf({ queues: ["email"], queueType: "classic" });

  expect(queues.map((queue) => queue.arguments)).toEqual([
    { "x-queue-type": "classic", "x-queue-version": 2 },
    {
      "x-queue-type": "classic",
      "x-queue-version": 2,
      "x-dead-letter-exchange": "waybill.dlx",
      "x-dead-letter-routing-key": "email",
      "x-overflow": "reject-publish",
    },
  ]);
});

test("one name cannot be a queue and a subscription", () => {
  const subscriptions = [{ subscription: "email", events: ["order.placed"] }];

  expect(() => topologyOf({ queues: ["email"], subscriptions })).toThrow(NameError);
  expect(() => topologyOf({ queues: ["Email"] })).toThrow(NameError);
  expect(() => names("")).toThrow(NameError);
});

test("definitions hold one policy that 3.10 accepts and that spares dead-letter queues", () => {
  const definitions = definitionsOf(topologyOf({ queues: ["email"] }), {
    users: [{ name: "relay", passwordHash: hashPassword("secret", Buffer.alloc(4)) }],
  });
  const [policy] = definitions.policies;

  expect(policy).toMatchObject({ name: "waybill.limits", "apply-to": "queues", priority: 10 });
  const pattern = new RegExp(policy?.pattern ?? "");
  expect(
    ["waybill.email", "waybill.email.dlq", "waybillx.email"].filter((name) => pattern.test(name)),
  ).toEqual(["waybill.email"]);
  expect(JSON.stringify(definitions)).not.toContain("secret");
});

test("a password's hash is RabbitMQ's salted SHA-256", () => {
  // The example of RabbitMQ's documentation (passwords.html).
  expect(hashPassword("test12", Buffer.from("908dc60a", "hex"))).toBe(
    "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
  );
});
