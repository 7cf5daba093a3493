/** Each broker user is let do its part, and nothing else. */

import { randomBytes } from "node:crypto";
import {
  applyTopology,
  checkTopology,
  createManagementClient,
  definitionsOf,
  hashPassword,
  leastRightUsers,
  names,
  queueDepth,
  topologyOf,
} from "@waybill/rabbitmq";
import { expect, inject, test } from "vitest";
import {
  connected,
  holdingConsumer,
  message,
  onChannel,
  recordingPublisher,
} from "../rabbitmq/support.ts";
import { createTestVhost, eventually } from "../support/index.ts";

/** A virtual host with the topology of one queue and the users of least right, as shipped, with passwords. */
async function startUsers() {
  const prefix = `s16-${randomBytes(4).toString("hex")}`;
  const vhost = await createTestVhost();
  const broker = new URL(vhost.url);
  const url = new URL(inject("managementUrl"));
  [url.username, url.password] = [broker.username, broker.password];
  const management = createManagementClient({ url: url.href });
  const topology = topologyOf({ prefix, queues: ["mail"] });
  const users = leastRightUsers(prefix);
  await management.importDefinitions(
    definitionsOf(topology, {
      vhost: vhost.name,
      users: users.map((user) => ({ ...user, passwordHash: hashPassword(user.name) })),
    }),
  );
  const as = (base: URL, part: string): string => {
    const own = new URL(base);
    own.username = `${prefix}-${part}`;
    own.password = own.username;
    return own.href;
  };
  return {
    prefix,
    vhost,
    management,
    topology,
    at: names(prefix),
    urlOf: (part: string) => as(broker, part),
    managementOf: (part: string) => createManagementClient({ url: as(url, part) }),
    async [Symbol.asyncDispose]() {
      for (const { name } of users) await management.deleteUser(name);
      await vhost[Symbol.asyncDispose]();
    },
  };
}

const refused = expect.objectContaining({ code: 403 });

test("S16: the topology user declares and publishes no job", async () => {
  await using env = await startUsers();
  await using connection = await connected(env.urlOf("topology"));

  const report = await applyTopology(
    connection,
    topologyOf({ prefix: env.prefix, queues: ["mail", "letters"] }),
    "assert",
  );
  await using publisher = recordingPublisher(connection);
  await publisher.publishAll([message("job", env.at.jobsExchange, "mail")]);
  await publisher.idle();

  expect(report.ok).toBe(true);
  expect(await publisher.outcomeOf("job")).toMatchObject({ status: "refused" });
  await expect(
    onChannel(connection, (channel) => channel.assertQueue("elsewhere")),
  ).rejects.toEqual(refused);
});

test("S16: the relay's user checks the topology, publishes to the three exchanges, and neither consumes nor declares", async () => {
  await using env = await startUsers();
  await using connection = await connected(env.urlOf("relay"));
  const queue = env.at.queueName("mail");

  const checked = await checkTopology(connection, env.topology);
  await using publisher = recordingPublisher(connection);
  await publisher.publishAll([
    message("job", env.at.jobsExchange, "mail"),
    message("dead", env.at.dlxExchange, "mail"),
    message("foreign", "amq.topic", "mail"),
  ]);
  await publisher.idle();

  expect(checked.ok).toBe(true);
  expect(await publisher.outcomeOf("job")).toEqual({ status: "confirmed" });
  expect(await publisher.outcomeOf("dead")).toEqual({ status: "confirmed" });
  expect(await publisher.outcomeOf("foreign")).toMatchObject({ status: "refused" });
  await expect(
    onChannel(connection, (channel) => channel.consume(queue, () => undefined)),
  ).rejects.toEqual(refused);
  await expect(onChannel(connection, (channel) => channel.purgeQueue(queue))).rejects.toEqual(
    refused,
  );
  await expect(onChannel(connection, (channel) => channel.deleteQueue(queue))).rejects.toEqual(
    refused,
  );
});

test("S16: the worker's user consumes and dead-letters, and reads no dead letters, publishes and declares nothing", async () => {
  await using env = await startUsers();
  await using relay = await connected(env.urlOf("relay"));
  await using worker = await connected(env.urlOf("worker"));
  await using administrator = await connected(env.vhost.url);
  await using publisher = recordingPublisher(relay);
  await publisher.publishAll([message("job", env.at.jobsExchange, "mail")]);
  await publisher.idle();

  await using held = holdingConsumer(worker, env.at.queueName("mail"));
  const [delivery] = await held.received(1);
  expect(delivery?.deadLetter()).toBe(true);
  const letters = env.at.deadLetterQueueName("mail");

  await eventually(async () => (await queueDepth(administrator, letters))?.messages === 1);
  await expect(
    onChannel(worker, (channel) => channel.consume(letters, () => undefined)),
  ).rejects.toEqual(refused);
  await using writer = recordingPublisher(worker);
  await writer.publishAll([message("own", env.at.jobsExchange, "mail")]);
  await writer.idle();
  expect(await writer.outcomeOf("own")).toMatchObject({ status: "refused" });
  await expect(
    onChannel(worker, (channel) => channel.deleteQueue(env.at.queueName("mail"))),
  ).rejects.toEqual(refused);
});

test("S16: the monitor's user looks through the management API, and sees no message", async () => {
  await using env = await startUsers();
  const monitor = env.managementOf("monitor");
  await using connection = await connected(env.urlOf("monitor"));

  expect(await monitor.hasAlarm()).toBe(false);
  expect((await monitor.queues(env.vhost.name)).map(({ name }) => name)).toContain(
    env.at.queueName("mail"),
  );
  await expect(
    onChannel(connection, (channel) => channel.get(env.at.queueName("mail"))),
  ).rejects.toEqual(refused);
  await expect(env.managementOf("relay").queues(env.vhost.name)).rejects.toMatchObject({
    code: "WAYBILL_BROKER_UNAVAILABLE",
  });
});

test("S16: users as shipped have no password, so that none can log in before one is set", () => {
  const users = leastRightUsers();

  expect(users.map(({ name }) => name)).toEqual([
    "waybill-topology",
    "waybill-relay",
    "waybill-worker",
    "waybill-monitor",
  ]);
  expect(users.filter(({ passwordHash }) => passwordHash !== "")).toEqual([]);
  expect(users.flatMap(({ tags }) => tags ?? [])).toEqual(["monitoring"]);
});
