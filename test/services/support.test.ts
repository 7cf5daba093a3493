import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Client } from "pg";
import { expect, test } from "vitest";

import {
  createPool,
  createTestDatabase,
  createTestVhost,
  eventually,
  startProcess,
  startProxy,
  type TestVhost,
} from "../support/index.ts";

/** Two virtual hosts with the same URL must differ in their prefix. */
function topology(vhost: TestVhost): string {
  return `${vhost.url} ${vhost.prefix}`;
}

test("a test database is empty, takes statements and is gone afterwards", async () => {
  await using server = await createTestDatabase();
  let name = "";
  {
    await using database = await createTestDatabase();
    name = database.name;
    await database.pool.query("create table public.thing (id int)");

    expect(await database.rows("select * from public.thing")).toEqual([]);
  }

  expect(await server.rows("select 1 from pg_database where datname = $1", [name])).toEqual([]);
});

test("a test virtual host keeps its topology to itself and is gone afterwards", async () => {
  await using other = await createTestVhost();
  await using vhost = await createTestVhost();

  await vhost.management.request("PUT", `/api/queues/${vhost.name}/thing`, { durable: true });

  expect(topology(vhost)).not.toBe(topology(other));
  const seen = await other.management.request("GET", `/api/queues/${other.name}`);
  expect(seen ?? []).toEqual([]);
});

test("a started process says its lines and ends with the test", async () => {
  let pid = 0;
  {
    await using child = await startProcess(new URL("../support/echo.ts", import.meta.url), [
      "ready",
    ]);
    pid = child.pid;
    await child.waitForLine("ready");
    child.writeLine("hello");

    expect(await child.waitForLine(/^echo: /)).toBe("echo: hello");
  }

  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});

test("a cut reply loses the answer to a commit that has happened", async () => {
  await using database = await createTestDatabase();
  await database.pool.query("create table public.thing (id int)");
  await using proxy = await startProxy(database.url);
  const client = new Client({ connectionString: proxy.url(database.url) });
  client.on("error", () => undefined);
  await client.connect();
  await client.query("begin");
  await client.query("insert into public.thing values (1)");
  proxy.cutReply("commit");

  await expect(client.query("commit")).rejects.toThrow(/terminated|ECONNRESET/);

  await eventually(async () => {
    expect(await database.rows("select id from public.thing")).toEqual([{ id: 1 }]);
  });
  expect(proxy.triggeredCount).toBe(1);
});

test("a cut before a commit undoes it", async () => {
  await using database = await createTestDatabase();
  await database.pool.query("create table public.thing (id int)");
  await using proxy = await startProxy(database.url);
  const client = new Client({ connectionString: proxy.url(database.url) });
  client.on("error", () => undefined);
  await client.connect();
  await client.query("begin");
  await client.query("insert into public.thing values (1)");
  proxy.cutBefore("commit");

  await expect(client.query("commit")).rejects.toThrow(/terminated|ECONNRESET/);

  expect(await database.rows("select id from public.thing")).toEqual([]);
});

test("a black hole keeps the connection open and the answer away", async () => {
  await using database = await createTestDatabase();
  await using proxy = await startProxy(database.url);
  const client = new Client({ connectionString: proxy.url(database.url) });
  client.on("error", () => undefined);
  await client.connect();
  proxy.blackHole("in");

  const answer = client.query("select 1").then(
    () => "answered",
    () => "cut",
  );
  await eventually(async () => {
    const asked = await database.rows(
      "select 1 from pg_stat_activity where query = 'select 1' and state = 'idle' and pid <> pg_backend_pid()",
    );
    return asked.length > 0;
  });
  expect(proxy.connectionCount).toBe(1);
  proxy.cut();

  expect(await answer).toBe("cut");
});

test("a proxy that refuses lets nobody in until it passes again", async () => {
  await using database = await createTestDatabase();
  await using proxy = await startProxy(database.url);
  const pool = createPool(proxy.url(database.url), 1);
  proxy.refuse();

  await expect(pool.query("select 1 as one")).rejects.toThrow(/terminated|ECONNRESET|ended/);
  proxy.pass();

  expect((await pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  await pool.end();
});

test("a throttled proxy is slower than the straight way, and loses nothing", async () => {
  await using database = await createTestDatabase();
  await using proxy = await startProxy(database.url);
  const pool = createPool(proxy.url(database.url), 2);
  await pool.query("select 1");
  const long = "x".repeat(100_000);

  proxy.throttle(1, "in");
  const throttled = pool.query("select 1").then(
    () => "throttled",
    () => "cut",
  );
  const straight = database.rows("select 1").then(() => "straight");
  expect(await Promise.race([throttled, straight])).toBe("straight");
  proxy.cut();
  expect(await throttled).toBe("cut");

  proxy.throttle(1_000_000, "in");
  expect((await pool.query("select repeat('x', 100000) as text")).rows).toEqual([{ text: long }]);
  await pool.end();
});

test("a slow proxy keeps the order of what it holds", async () => {
  const echo = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket)).listen(
    0,
    "127.0.0.1",
  );
  await once(echo, "listening");
  const { port } = echo.address() as AddressInfo;
  await using proxy = await startProxy(`tcp://127.0.0.1:${port}`);
  proxy.slow(5);
  const socket = connect({ host: proxy.host, port: proxy.port, allowHalfOpen: true });

  for (const chunk of ["one ", "two ", "three"]) socket.write(chunk);
  socket.end();

  expect(await text(socket)).toBe("one two three");
  echo.close();
});
