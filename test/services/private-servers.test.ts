import { existsSync } from "node:fs";
import { expect, test } from "vitest";

import { startPrivatePostgres, startPrivateRabbitmq } from "../../scripts/services/index.ts";
import { isAlive } from "../../scripts/services/processes.ts";
import { createPool, createTestVhost, eventually } from "../support/index.ts";

test("a private PostgreSQL that is killed and restarted has what was committed", async () => {
  await using server = await startPrivatePostgres();
  const pool = createPool(server.url);
  await pool.query("create table public.thing (id int)");
  await pool.query("insert into public.thing values (1)");

  await server.kill("SIGKILL");

  expect(server.pid).toBeUndefined();
  await expect(pool.query("select 1")).rejects.toThrow(/ECONNREFUSED|ECONNRESET|terminated/);
  await server.start();
  const { rows } = await pool.query("select id from public.thing");
  expect(rows).toEqual([{ id: 1 }]);
  await pool.end();
}, 120_000);

test("a frozen private PostgreSQL answers again once it is thawed", async () => {
  await using server = await startPrivatePostgres({ fsync: false });
  const pool = createPool(server.url);
  await pool.query("select 1");
  let hasAnswered = false;

  await server.kill("SIGSTOP");
  const answer = pool.query("select 2 as two").then(({ rows }) => {
    hasAnswered = true;
    return rows;
  });
  expect(hasAnswered).toBe(false);
  await server.kill("SIGCONT");

  expect(await answer).toEqual([{ two: 2 }]);
  await pool.end();
}, 120_000);

test("a wiped private PostgreSQL starts from nothing at the same address", async () => {
  await using server = await startPrivatePostgres({ fsync: false });
  const pool = createPool(server.url);
  await pool.query("create table public.thing (id int)");

  await server.wipe();
  await server.start();

  const { rows } = await pool.query("select to_regclass('public.thing') as thing");
  expect(rows).toEqual([{ thing: null }]);
  await pool.end();
}, 120_000);

test("a private RabbitMQ that is killed and restarted has its durable messages", async () => {
  await using server = await startPrivateRabbitmq();
  const { url: rabbitmqUrl, managementUrl } = server;
  await using vhost = await createTestVhost({ rabbitmqUrl, managementUrl });
  const { management, name } = vhost;
  await management.request("PUT", `/api/queues/${name}/thing`, {
    durable: true,
    arguments: { "x-queue-type": "quorum" },
  });
  await management.request("POST", `/api/exchanges/${name}/amq.default/publish`, {
    routing_key: "thing",
    payload: "kept",
    payload_encoding: "string",
    properties: { delivery_mode: 2 },
  });

  await server.restart();

  const messages = await eventually(async () => {
    const got = await management.request("POST", `/api/queues/${name}/thing/get`, {
      count: 1,
      ackmode: "ack_requeue_true",
      encoding: "auto",
    });
    expect(got).toHaveLength(1);
    return got;
  });
  expect(messages).toMatchObject([{ payload: "kept" }]);
}, 240_000);

test("a private RabbitMQ obeys rabbitmqctl", async () => {
  await using server = await startPrivateRabbitmq();

  await server.ctl("add_vhost", "made-by-ctl");

  expect(await server.ctl("list_vhosts", "--silent")).toContain("made-by-ctl");
}, 240_000);

test("a stopped private server leaves no process and no directory, killed or frozen before", async () => {
  const killed = await startPrivatePostgres();
  const frozen = await startPrivatePostgres();
  const { pid } = frozen;
  await killed.kill("SIGKILL");
  await frozen.kill("SIGSTOP");

  await Promise.all([killed.stop(), frozen.stop()]);

  for (const { directory } of [killed, frozen]) {
    expect(directory !== undefined && existsSync(directory)).toBe(false);
  }
  expect(pid !== undefined && isAlive(pid)).toBe(false);
}, 120_000);
