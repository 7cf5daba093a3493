import { expect, test } from "vitest";
import { silentLogger } from "@waybill/core";
import { migrate } from "@waybill/postgres";
import { createBrokerConnection, queueDepth } from "@waybill/rabbitmq";
import { createTestDatabase, createTestVhost, eventually, startProxy } from "../support/index.ts";
import { logOf, moduleOf, startPlace } from "./place.ts";
import { runCli, startCli } from "./support.ts";

test("relay and worker run a job end to end, and both drain at SIGTERM with exit code 0", async () => {
  await using place = await startPlace();
  // At the lowest level, with passwords in both URLs, so that a log line that holds one shows.
  const url = new URL(place.database.url);
  if (url.password === "") url.password = "canary-pa55word";
  const env = { ...place.env, DATABASE_URL: url.href, LOG_LEVEL: "trace" };
  await using relay = await startCli(["relay", "--name", "relay-1"], env);
  await using worker = await startCli(["worker", moduleOf("emails.ts"), "--name", "worker-1"], env);

  const id = await place.enqueue("ada@example.com");
  await eventually(async () => (await place.sent()).length === 1, { deadlineMs: 25_000 });
  const shown = await runCli(["jobs", "show", id, "--json"], place.env);
  relay.kill("SIGTERM");
  worker.kill("SIGINT");
  const [relayExit, workerExit] = await Promise.all([relay.exited, worker.exited]);

  expect(shown.json()).toMatchObject({ state: "succeeded", relayed: true, worker: "worker-1" });
  expect([relayExit, workerExit]).toEqual([
    { code: 0, signal: null },
    { code: 0, signal: null },
  ]);
  expect(logOf(relay).at(-1)).toMatchObject({ level: "info", msg: "relay stopped" });
  expect(logOf(worker).at(-1)).toMatchObject({ level: "info", msg: "worker stopped" });
  expect([...relay.stderr, ...worker.stderr]).toEqual([]);
  const log = [...relay.lines, ...worker.lines].join("\n");
  expect(log).not.toContain(url.password);
  expect(log).not.toContain(`:${new URL(place.vhost.url).password || "guest"}@`);
});

test("a worker that is told to stop finishes the job that it runs", async () => {
  await using place = await startPlace();
  await using relay = await startCli(["relay"], place.env);
  await using worker = await startCli(["worker", moduleOf("slow.ts")], place.env);
  const holder = await place.database.pool.connect();
  await holder.query("select pg_advisory_lock(1)");

  const id = await place.enqueue("ada@example.com");
  await worker.waitForLine("handling ada@example.com", { deadlineMs: 25_000 });
  worker.kill("SIGTERM");
  await worker.waitForLine("stopping, send the signal again");
  await holder.query("select pg_advisory_unlock(1)");
  holder.release();
  const exit = await worker.exited;

  expect(exit).toEqual({ code: 0, signal: null });
  expect(await place.sent()).toEqual(["ada@example.com"]);
  expect(await place.database.rows("select state from waybill.job where id = $1", [id])).toEqual([
    { state: "succeeded" },
  ]);
  expect(relay.hasExited).toBe(false);
});

test("a second signal hurries a worker, which still ends with 0", async () => {
  await using place = await startPlace();
  await using worker = await startCli(
    ["worker", moduleOf("by-name.ts"), "--name", "hurries"],
    place.env,
  );

  await worker.waitForLine("running", { deadlineMs: 25_000 });
  worker.kill("SIGTERM");
  await worker.waitForLine("draining, hurried false");
  worker.kill("SIGTERM");

  expect(await worker.exited).toEqual({ code: 0, signal: null });
  expect(logOf(worker).map(({ msg }) => msg)).toEqual(
    expect.arrayContaining([
      "stopping, send the signal again not to wait for running jobs",
      "handing running jobs back, send the signal again to end at once",
      "worker stopped",
    ]),
  );
});

test("a third signal ends a worker at once, whatever it runs", async () => {
  await using place = await startPlace();
  await using worker = await startCli(
    ["worker", moduleOf("by-name.ts"), "--name", "deaf"],
    place.env,
  );

  await worker.waitForLine("running", { deadlineMs: 25_000 });
  worker.kill("SIGTERM");
  await worker.waitForLine("stopping, send the signal again");
  worker.kill("SIGTERM");
  await worker.waitForLine("handing running jobs back");
  worker.kill("SIGINT");

  expect(await worker.exited).toEqual({ code: 130, signal: null });
});

test("a second signal ends a relay at once, whatever it waits for", async () => {
  await using place = await startPlace();
  await using proxy = await startProxy(place.vhost.url);
  await using broker = createBrokerConnection({
    url: place.vhost.url,
    name: "test",
    logger: silentLogger,
  });
  await broker.tryReady();
  await runCli(["topology", "apply", "--queue", "emails"], place.env);
  await using relay = await startCli(["relay", "--grace", "10m"], {
    ...place.env,
    RABBITMQ_URL: proxy.url(place.vhost.url),
  });
  await relay.waitForLine("relay leads", { deadlineMs: 25_000 });

  const arrived = (messages: number): Promise<boolean> =>
    eventually(async () => (await queueDepth(broker, "waybill.emails"))?.messages === messages);
  await place.enqueue("ada@example.com");
  await arrived(1);

  // The second message arrives, its confirm does not: so the relay has something to wait for.
  proxy.blackHole("in");
  await place.enqueue("bob@example.com");
  await arrived(2);
  relay.kill("SIGINT");
  await relay.waitForLine("stopping, send the signal again to end at once");
  relay.kill("SIGINT");

  expect(await relay.exited).toEqual({ code: 130, signal: null });
});

test("a worker that ends by itself ends the command with 0, without a signal", async () => {
  await using place = await startPlace();

  const ended = await runCli(["worker", moduleOf("by-name.ts"), "--name", "ends"], place.env);

  expect(ended.code).toBe(0);
  expect(ended.stdout).toMatch(/"msg":"worker stopped"/);
  expect(ended.stderr).toBe("");
});

test("a worker that fails outside its jobs ends the command with 1 and the error on stderr", async () => {
  await using place = await startPlace();

  const failed = await runCli(["worker", moduleOf("by-name.ts"), "--name", "fails"], place.env);

  expect(failed.code).toBe(1);
  expect(failed.stderr).toMatch(/the customer cache is corrupt/);
});

test("a daemon waits for a server and a schema that are not there yet, and says so", async () => {
  await using database = await createTestDatabase();
  await using vhost = await createTestVhost();
  await using proxy = await startProxy(vhost.url);
  proxy.refuse();
  const env = {
    DATABASE_URL: database.url,
    RABBITMQ_URL: proxy.url(vhost.url),
    WAYBILL_PREFIX: vhost.prefix,
  };
  await using relay = await startCli(["relay"], env);

  await relay.waitForLine("no Waybill tables");
  await migrate(database.pool);
  await relay.waitForLine("Cannot reach RabbitMQ");
  proxy.pass();
  await relay.waitForLine("servers and schema are there");
  relay.kill("SIGTERM");

  expect((await relay.exited).code).toBe(0);
});

test("a daemon that waits ends with 0 when it is told to stop", async () => {
  await using database = await createTestDatabase();
  await using vhost = await createTestVhost();
  await using relay = await startCli(["relay"], {
    DATABASE_URL: database.url,
    RABBITMQ_URL: vhost.url,
  });

  await relay.waitForLine("waiting");
  relay.kill("SIGTERM");

  expect((await relay.exited).code).toBe(0);
});

test("a module that is missing, odd or broken is refused with what is wrong with it", async () => {
  const urls = { DATABASE_URL: "postgres://127.0.0.1:1/app", RABBITMQ_URL: "amqp://127.0.0.1:1" };
  const cases: readonly (readonly [file: string, code: number, fact: RegExp])[] = [
    [
      "no-such-module.ts",
      2,
      /does not exist \(looked at \/.*no-such-module\.ts\); correct the path/,
    ],
    ["nothing.ts", 2, /exports no `worker` \(it exports handlers, other\); export it as/],
    ["odd.ts", 2, /exports `worker`, but it is no worker \(number\)/],
    ["returns-nothing.ts", 2, /returns no worker \(undefined\); return what createWorker gives/],
    ["broken-import.mjs", 2, /imports something that is not there: .*no-such-file/],
    ["throws.ts", 1, /throws while it is loaded: the customer service needs CUSTOMER_URL/],
    [
      "bad-options.ts",
      2,
      /databaseUrl: expected a URL like postgres[\s\S]*queues\.emails\.concurrency/,
    ],
    [".", 2, /is a directory/],
  ];

  const results = await Promise.all(
    cases.map(([file]) => runCli(["worker", moduleOf(file)], urls)),
  );

  for (const [index, result] of results.entries()) {
    expect(result.stderr).toMatch(cases[index]?.[2] ?? /never/);
    expect(result.code, result.stderr).toBe(cases[index]?.[1]);
  }
});
