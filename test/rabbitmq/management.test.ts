/** What an administrator's tools show and do; every test has a virtual host of its own. */

import { randomBytes } from "node:crypto";
import {
  applyTopology,
  checkTopology,
  createManagementClient,
  definitionsOf,
  hashPassword,
  incomingMessage,
  type ManagementClient,
  names,
  queueDepth,
  topologyOf,
} from "@waybill/rabbitmq";
import { beforeAll, expect, inject, test } from "vitest";

import { eventually } from "../support/index.ts";
import {
  connected,
  declared,
  holdingConsumer,
  message,
  onChannel,
  recordingPublisher,
} from "./support.ts";

let brokerUrl: string;
let management: ManagementClient;

beforeAll(async () => {
  brokerUrl = inject("rabbitmqUrl");
  const url = new URL(inject("managementUrl"));
  const { username, password } = new URL(brokerUrl);
  url.username = username;
  url.password = password;
  management = createManagementClient({ url: url.href });
});

/** A virtual host of its own, the administrator's URL in it, and a way to make lesser users. */
async function setUp() {
  const vhost = `test-${randomBytes(4).toString("hex")}`;
  const users: string[] = [];
  const urlOf = (user?: string): string => {
    const url = new URL(brokerUrl);
    url.pathname = `/${vhost}`;
    if (user !== undefined) [url.username, url.password] = [user, user];
    return url.href;
  };
  const administrator = decodeURIComponent(new URL(brokerUrl).username) || "guest";
  const all = { configure: ".*", write: ".*", read: ".*" };
  await management.putVhost(vhost);
  await management.putPermissions(vhost, administrator, all);
  return {
    vhost,
    users,
    urlOf,
    async user(role: string, write: string, read: string): Promise<string> {
      const name = `${role}-${vhost}`;
      users.push(name);
      await management.putUser(name, name);
      await management.putPermissions(vhost, name, { configure: "^$", write, read });
      return urlOf(name);
    },
    async [Symbol.asyncDispose]() {
      for (const name of users) await management.deleteUser(name);
      await management.deleteVhost(vhost);
    },
  };
}

const topology = topologyOf({ queues: ["mail"] });
const at = names();

test("the least rights suffice to check the topology, publish and consume, and declare nothing", async () => {
  await using env = await setUp();
  await using admin = await connected(env.urlOf());
  await applyTopology(admin, topology, "assert");
  const relayUrl = await env.user("relay", "^waybill\\.(jobs|dlx|events)$", "^$");
  const workerUrl = await env.user("worker", "^$", "^waybill\\..*$");
  await using relay = await connected(relayUrl);
  await using worker = await connected(workerUrl);

  const checks = [await checkTopology(relay, topology), await checkTopology(worker, topology)];
  const asserted = await applyTopology(relay, topologyOf({ queues: ["other"] }), "assert");
  await using publisher = recordingPublisher(relay);
  await publisher.publishAll([
    message("allowed", at.jobsExchange, "mail"),
    message("forbidden", "amq.topic", "mail"),
  ]);
  await publisher.idle();
  await using held = holdingConsumer(worker, at.queueName("mail"));
  const [delivery] = await held.received(1);

  expect(checks.map(({ ok }) => ok)).toEqual([true, true]);
  expect(asserted.results.map(({ status }) => status)).not.toContain("ok");
  expect(asserted.results[0]).toMatchObject({
    status: "refused",
    message: expect.stringContaining(`run with topology "check"`),
  });
  expect(await publisher.outcomeOf("allowed")).toEqual({ status: "confirmed" });
  expect(await publisher.outcomeOf("forbidden")).toEqual({
    status: "refused",
    reason: expect.stringContaining("ACCESS_REFUSED"),
  });
  expect(delivery?.deadLetter()).toBe(true);
  await eventually(
    async () => (await queueDepth(admin, at.deadLetterQueueName("mail")))?.messages === 1,
  );
});

test("with the management API a check sees differing arguments and missing bindings", async () => {
  await using env = await setUp();
  await using connection = await connected(env.urlOf());
  await declared(connection, "waybill", ["mail"]);
  const queue = at.queueName("mail");
  await onChannel(connection, (channel) => channel.deleteQueue(queue));
  await onChannel(connection, (channel) =>
    channel.assertQueue(queue, {
      arguments: { ...topology.queues[1]?.arguments, "x-delivery-limit": 3 },
    }),
  );

  const report = await checkTopology(connection, topology, { management, vhost: env.vhost });

  expect(report.results.filter(({ status }) => status !== "ok")).toEqual([
    {
      kind: "queue",
      name: queue,
      status: "mismatch",
      differences: [{ argument: "x-delivery-limit", found: "3", wanted: "50" }],
      message: expect.stringContaining(`x-delivery-limit is "3", wanted is "50"`),
    },
    expect.objectContaining({
      kind: "binding",
      name: `${at.jobsExchange} -> ${queue} (mail)`,
      status: "missing",
    }),
  ]);
});

test("imported definitions are the topology, the policy and users that can log in", async () => {
  await using env = await setUp();
  const name = `imported-${env.vhost}`;
  env.users.push(name);
  await management.importDefinitions(
    definitionsOf(topology, {
      vhost: env.vhost,
      users: [{ name, passwordHash: hashPassword(name) }],
    }),
  );

  await using connection = await connected(env.urlOf(name));
  const report = await applyTopology(connection, topology, "assert");
  const checked = await checkTopology(connection, topology, { management, vhost: env.vhost });

  expect([report.ok, checked.ok]).toEqual([true, true]);
  expect(await management.request("GET", `policies/${env.vhost}`)).toMatchObject([
    { name: "waybill.limits", "apply-to": "queues" },
  ]);
});

test("a message moved or published by hand arrives whole", async () => {
  await using env = await setUp();
  await using connection = await connected(env.urlOf());
  await declared(connection, "waybill", ["mail"]);
  await using publisher = recordingPublisher(connection);
  await publisher.publishAll([message("dead", at.dlxExchange, "mail", `{"a":1}`)]);
  await publisher.idle();

  await management.moveMessages(env.vhost, at.deadLetterQueueName("mail"), at.queueName("mail"));
  const routed = await management.publish(env.vhost, {
    exchange: at.jobsExchange,
    routingKey: "mail",
    payload: "{}",
  });
  const unrouted = await management.publish(env.vhost, {
    exchange: "",
    routingKey: "nowhere",
    payload: "{}",
  });
  await using held = holdingConsumer(connection, at.queueName("mail"));
  const deliveries = await held.received(2);
  const messages = deliveries.map((each) => incomingMessage(each.message, "mail"));

  expect([routed, unrouted]).toEqual([true, false]);
  expect(messages.find(({ messageId }) => messageId === "dead")).toMatchObject({
    type: "test",
    content: Buffer.from(`{"a":1}`),
    headers: { "waybill-dispatch": 1 },
  });
  expect(messages.find(({ messageId }) => messageId === undefined)).toMatchObject({
    content: Buffer.from("{}"),
    contentType: undefined,
  });
});

test("a wrong login to the management API is named as such", async () => {
  const url = new URL(inject("managementUrl"));
  url.username = "ann";
  url.password = "s3cret";

  const answer = createManagementClient({ url: url.href }).queues("/");

  await expect(answer).rejects.toMatchObject({
    code: "WAYBILL_BROKER_UNAVAILABLE",
    needsOperator: true,
    message: expect.not.stringContaining("s3cret"),
  });
  expect(await management.hasAlarm()).toBe(false);
  expect(await management.queue("/", "nowhere")).toBeUndefined();
});
