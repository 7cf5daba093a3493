import { connect } from "amqplib";
import { expect, test } from "vitest";
import { createMigratedDatabase, createTestVhost, type TestVhost } from "../support/index.ts";
import { type Environment, runCli } from "./support.ts";

/** The environment of commands about this virtual host. */
function environmentOf(vhost: TestVhost): Environment {
  const { management } = vhost;
  const { username, password } = new URL(vhost.url);
  const url = Object.assign(new URL(management.url), {
    username: username || "guest",
    password: password || "guest",
  });
  return {
    RABBITMQ_URL: vhost.url,
    WAYBILL_PREFIX: vhost.prefix,
    RABBITMQ_MANAGEMENT_URL: url.href,
  };
}

test("what is missing is a problem until it is applied, and applying twice changes nothing", async () => {
  await using vhost = await createTestVhost();
  const env = environmentOf(vhost);
  const args = ["--queue", "emails", "--subscription", "billing=order.created,order.paid"];

  const before = await runCli(["topology", "check", ...args, "--json"], env);
  const dryRun = await runCli(["topology", "apply", ...args, "--dry-run"], env);
  const still = await runCli(["topology", "check", ...args, "--quiet"], env);
  const applied = await runCli(["topology", "apply", ...args, "--json"], env);
  const again = await runCli(["topology", "apply", ...args], env);
  const after = await runCli(["topology", ...args, "--json"], env);

  expect(before.code).toBe(4);
  expect(before.json()).toMatchObject({ ok: false, mode: "check", prefix: vhost.prefix });
  expect(dryRun.code).toBe(0);
  expect(dryRun.stderr).toContain("Nothing was changed");
  expect(still.code).toBe(4);
  expect(still.stderr).toBe("");
  expect(applied.code).toBe(0);
  expect(applied.json()).toMatchObject({ ok: true, mode: "assert" });
  expect(again.code).toBe(0);
  expect(after.code).toBe(0);
  expect(after.json()).toMatchObject({ ok: true });
});

test("a queue that differs is named with the argument, what was found and what is wanted", async () => {
  await using vhost = await createTestVhost();
  const env = environmentOf(vhost);
  const connection = await connect(vhost.url);
  const channel = await connection.createChannel();
  await channel.assertQueue(`${vhost.prefix}.emails`, {
    durable: true,
    arguments: { "x-queue-type": "classic" },
  });
  await connection.close();

  const check = await runCli(["topology", "check", "--queue", "emails", "--json"], env);
  const apply = await runCli(["topology", "apply", "--queue", "emails"], env);

  expect(check.code).toBe(4);
  const results = check.json()["results"] as {
    name: string;
    status: string;
    differences: object[];
  }[];
  const queue = results.find(({ name }) => name === `${vhost.prefix}.emails`);
  expect(queue?.status).toBe("mismatch");
  expect(queue?.differences).toContainEqual({
    argument: "x-queue-type",
    found: "classic",
    wanted: "quorum",
  });
  expect(apply.code).toBe(3);
  // The broker names one argument of several, which one is its choice.
  expect(apply.stdout).toMatch(/: found \S+, wanted \S+/);
  expect(apply.stderr).toMatch(/cannot be changed in place/);
});

test("without names the queues are those that the database knows", async () => {
  await using vhost = await createTestVhost();
  await using database = await createMigratedDatabase();
  await database.rows(
    `select * from waybill.enqueue('[{"type":"email.welcome","queue":"emails"}]')`,
  );

  const applied = await runCli(["topology", "apply", "--json"], {
    ...environmentOf(vhost),
    DATABASE_URL: database.url,
  });
  const nameless = await runCli(["topology", "apply"], environmentOf(vhost));

  const names = (applied.json()["results"] as { name: string }[]).map(({ name }) => name);
  expect(names).toContain(`${vhost.prefix}.emails.dlq`);
  expect(nameless.code).toBe(2);
  expect(nameless.stderr).toMatch(
    /DATABASE_URL: is not set; set it to look the queues up there, or name them with --queue/,
  );
});

test("the policy is set where the management API is known, and refused with a reason where it is not", async () => {
  await using vhost = await createTestVhost();
  const env = environmentOf(vhost);

  const without = await runCli(["topology", "apply", "--queue", "emails", "--policy"], {
    ...env,
    RABBITMQ_MANAGEMENT_URL: undefined,
  });
  const set = await runCli(["topology", "apply", "--queue", "emails", "--policy"], env);

  expect(without.code).toBe(2);
  expect(without.stderr).toMatch(/RABBITMQ_MANAGEMENT_URL: is not set, and --policy needs it/);
  expect(set.code).toBe(0);
  expect(set.stderr).toContain(`Policy "${vhost.prefix}.limits" is set.`);
});

test("definitions.json is printed without any connection", async () => {
  const result = await runCli(["topology", "definitions", "--queue", "emails", "--prefix", "shop"]);

  expect(result.code).toBe(0);
  expect(result.json()).toMatchObject({ vhosts: [{ name: "/" }], users: [] });
  expect(result.stdout).toContain('"shop.emails.dlq"');
});

test("a subscription in another form than name=event,event is a usage error", async () => {
  const result = await runCli(["topology", "definitions", "--subscription", "billing"]);

  expect(result.code).toBe(2);
  expect(result.stderr).toMatch(/--subscription: expected name=event,event, found "billing"/);
});
