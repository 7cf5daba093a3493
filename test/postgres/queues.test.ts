import { ConfigError, NameError } from "@waybill/core";
import { createQueues, type Queues } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { addWorker } from "../support/worker-row.ts";
import { type Application, startApplication } from "./application.ts";

const queuesOf = (app: Application): Queues<PoolClient> =>
  createQueues({ database: app.database, actor: "tester" });

/** What workers write at their start. */
const declare = (app: Application, name: string, settings: object): Promise<unknown> =>
  app.pool.query(
    `insert into waybill.queue (name, declared) values ($1, $2)
     on conflict (name) do update set declared = excluded.declared`,
    [name, JSON.stringify(settings)],
  );

const audits = (app: Application): Promise<Record<string, unknown>[]> =>
  app.db.rows("select actor, action, id, queue, detail from waybill.audit_log order by audit_id");

async function revision(app: Application): Promise<number> {
  const [row] = await app.db.rows<{ revision: string }>("select revision from waybill.flow");
  return Number(row?.revision);
}

test("what an operator sets wins over what code declares, now and after the next deploy, until a reset", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  await declare(app, "emails", { concurrency: 10, rate: { limit: 100 } });

  const set = await queues.set("emails", { concurrency: 50, rate: null }, { reason: "sale" });
  await declare(app, "emails", { concurrency: 20, order: {} });
  const deployed = await queues.get("emails");
  const reset = await queues.reset("emails", { actor: "anna" });

  expect(set).toEqual({ concurrency: 50 });
  expect(deployed).toMatchObject({
    declared: { concurrency: 20, order: {} },
    overrides: { concurrency: 50, rate: null },
    settings: { concurrency: 50, order: {} },
    governed: true,
  });
  expect(reset).toEqual({ concurrency: 20, order: {} });
  expect((await queues.get("emails")).overrides).toEqual({});
  expect(await audits(app)).toEqual([
    {
      actor: "tester",
      action: "set",
      id: null,
      queue: "emails",
      detail: "concurrency 10 -> 50, rate 100/s -> none: sale",
    },
    {
      actor: "anna",
      action: "set",
      id: null,
      queue: "emails",
      detail: "concurrency 50 -> 20",
    },
  ]);
});

test("settings that contradict each other, the declared ones included, change nothing", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  await declare(app, "emails", { keys: { concurrency: 5 } });
  const before = await revision(app);

  const refused = queues.set("emails", { concurrency: 2, rate: { limit: 0 }, dependsOn: ["no"] });

  await expect(refused).rejects.toBeInstanceOf(ConfigError);
  await expect(refused).rejects.toMatchObject({
    issues: [{ path: "rate.limit" }, { path: "keys.concurrency" }, { path: "dependsOn" }],
  });
  await expect(queues.set("Emails", {})).rejects.toBeInstanceOf(NameError);
  expect((await queues.get("emails")).overrides).toEqual({});
  expect(await audits(app)).toEqual([]);
  expect(await revision(app)).toBe(before);
});

test("a dependency that is declared can be named, and the queue is governed then", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  await app.pool.query("insert into waybill.dependency (name) values ('mail-api')");

  await queues.set("emails", { types: { "email.welcome": { dependsOn: ["mail-api"] } } });

  expect(await queues.get("emails")).toMatchObject({ governed: true });
});

test("every change raises the number by which relays and workers notice it", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  const acts: readonly (() => Promise<unknown>)[] = [
    () => queues.set("emails", { keys: { tiers: { gold: { weight: 5 } } } }),
    () => queues.pause({ queue: "emails" }),
    () => queues.resume({ queue: "emails" }),
    () => queues.pause({ queue: "emails", type: "email.welcome" }),
    () => queues.resume({ queue: "emails", type: "email.welcome" }),
    () => queues.setTier({ queue: "emails", key: "acme", tier: "gold" }),
    () => queues.reset("emails"),
  ];

  for (const act of acts) {
    const before = await revision(app);
    await act();
    expect(await revision(app)).toBeGreaterThan(before);
  }
});

test("of changes at the same time none is lost", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  await queues.set("emails", { keys: { tiers: {} } });

  await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      queues.set("emails", ({ keys }) => ({
        keys: { ...keys, tiers: { ...keys?.tiers, [`tier-${n}`]: { weight: n + 1 } } },
      })),
    ),
  );

  const { settings } = await queues.get("emails");
  expect(Object.keys(settings.keys?.tiers ?? {})).toHaveLength(8);
});

test.each([
  [{ queue: "emails" }, null],
  [{ queue: "emails", type: "email.welcome" }, "type email.welcome"],
  [{ queue: "emails", key: "acme" }, "key acme"],
])("a pause of %j lasts until it is resumed, and says who and why", async (target, what) => {
  await using app = await startApplication();
  const queues = queuesOf(app);

  const first = await queues.pause(target, { reason: "provider is down", actor: "anna" });
  const second = await queues.pause(target, { reason: "again" });
  const paused = await queues.get("emails");
  const resumed = await queues.resume(target);
  const again = await queues.resume(target);

  expect([first, second, resumed, again]).toEqual([true, false, true, false]);
  expect(what === null ? paused : paused.gates[0]).toMatchObject({
    pausedAt: expect.any(Date),
    pausedBy: "anna",
    pauseReason: "provider is down",
  });
  expect(await app.count("waybill.queue where paused_at is not null")).toBe(0);
  expect(await app.count("waybill.queue_gate")).toBe(0);
  expect(await audits(app)).toMatchObject([
    {
      actor: "anna",
      action: "pause",
      queue: "emails",
      detail: `${what === null ? "" : `${what}: `}provider is down`,
    },
    { actor: "tester", action: "resume", queue: "emails" },
  ]);
});

test("a resume opens taps that handlers have closed, and keeps the tier of a key", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  await app.pool.query(
    `insert into waybill.queue (name, closed_until, closed_reason, declared)
     values ('emails', now() + interval '1 hour', 'too many', '{"keys":{"tiers":{"gold":{}}}}')`,
  );
  await queues.setTier({ queue: "emails", key: "acme", tier: "gold" });
  await app.pool.query("update waybill.queue_gate set closed_until = now() + interval '1 hour'");
  const closed = await queues.get("emails");

  await queues.resume({ queue: "emails" });
  await queues.resume({ queue: "emails", key: "acme" });

  expect(closed).toMatchObject({
    closedUntil: expect.any(Date),
    closedReason: "too many",
    pausedAt: null,
    gates: [{ kind: "key", name: "acme", tier: "gold", closedUntil: expect.any(Date) }],
  });
  expect(await queues.get("emails")).toMatchObject({
    closedUntil: null,
    gates: [{ tier: "gold", closedUntil: null }],
  });
});

test("a key is put into a tier that the queue has, and taken out of it", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  await declare(app, "emails", { keys: { tiers: { gold: {}, silver: {} } } });
  await queues.pause({ queue: "emails", key: "slow" });

  await queues.setTier({ queue: "emails", key: "acme", tier: "gold" });
  await queues.setTier({ queue: "emails", key: "slow", tier: "silver" });
  const unknown = queues.setTier({ queue: "emails", key: "acme", tier: "bronze" });
  await expect(unknown).rejects.toThrow(/"bronze" is no tier .* there are gold, silver/);
  await expect(queues.setTier({ queue: "letters", key: "acme", tier: "gold" })).rejects.toThrow(
    /there are none/,
  );
  const tiers = (await queues.get("emails")).gates.map(({ name, tier }) => [name, tier]);
  for (const key of ["acme", "slow"]) await queues.setTier({ queue: "emails", key, tier: null });

  expect(tiers).toEqual([
    ["acme", "gold"],
    ["slow", "silver"],
  ]);
  expect((await queues.get("emails")).gates).toMatchObject([{ name: "slow", tier: null }]);
  expect((await audits(app)).map(({ detail }) => detail)).toContain("key acme: tier gold");
});

test("a queue shows what waits, what is dispatched, who works for it and what operators did", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  await queues.set("emails", { concurrency: 5, order: {} });
  await app.pool.query(
    `insert into waybill.backlog (id, queue, place, type, enqueued_at)
     select waybill.new_id(), 'emails', n, 'email.welcome', now() from generate_series(1, 3) as n`,
  );
  await app.pool.query(
    `insert into waybill.slot (id, queue, place, key, ordering_key, type, priority, dispatch, waiting, enqueued_at)
     select waybill.new_id(), 'emails', n, '', 'k' || n, 'email.welcome', 0, 1, n = 1, now() from generate_series(1, 3) as n`,
  );
  const worker = await addWorker(app.db, "worker-1", { queues: ["emails", "letters"] });
  const dead = await addWorker(app.db, "worker-2", { lease_until: new Date(0) });
  await app.pool.query(
    `insert into waybill.worker_queue (worker, queue, concurrency, granted, held)
     values ($1, 'emails', 10, 5, 3), ($2, 'emails', 10, 0, 0)`,
    [worker, dead],
  );

  const listed = await queues.list();
  const emails = await queues.get("emails");

  expect(listed.map(({ name, governed, workers }) => [name, governed, workers])).toEqual([
    ["emails", true, 1],
    ["letters", false, 1],
  ]);
  expect(emails).toMatchObject({
    waiting: 3,
    dispatched: 2,
    blocked: 1,
    workers: 1,
    capacity: 10,
    shares: [{ worker, name: "worker-1", concurrency: 10, granted: 5, held: 3 }],
    audit: [{ action: "set", actor: "tester" }],
  });
  await expect(queues.get("emials")).rejects.toThrow(/nothing is known of it.*emails, letters/s);
});

test("acts on queues join the caller's transaction and are undone with it", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);

  const undone = app.database.transaction(async (tx) => {
    await queues.set("emails", { concurrency: 3 }, { tx });
    await queues.pause({ queue: "emails" }, { tx });
    expect(await queues.get("emails", { tx })).toMatchObject({ pausedAt: expect.any(Date) });
    throw new Error("undo");
  });

  await expect(undone).rejects.toThrow("undo");
  expect(await queues.list()).toEqual([]);
  expect(await audits(app)).toEqual([]);
});

test("targets and options that make no sense are refused before anything is sent", async () => {
  await using app = await startApplication();
  const queues = queuesOf(app);
  const long = "k".repeat(256);

  await expect(queues.pause({ queue: "emails", type: "a", key: "b" })).rejects.toThrow(
    /key: does not go together with type/,
  );
  await expect(queues.pause({ queue: "emails", key: long })).rejects.toBeInstanceOf(NameError);
  await expect(queues.setTier({ queue: "emails", key: long, tier: null })).rejects.toBeInstanceOf(
    NameError,
  );
  await expect(queues.pause({ queue: "emails" }, { raeson: "x" } as never)).rejects.toThrow(
    /raeson: is not an option/,
  );
  expect(() => createQueues({ database: app.database, actor: "" })).toThrow(ConfigError);
});
