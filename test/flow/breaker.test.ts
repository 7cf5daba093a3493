/** How a breaker moves: by rows and the database's clock, one statement at a time. */

import { failureClasses } from "@waybill/core";
import { createDependencyStore } from "@waybill/postgres";
import { expect, test } from "vitest";
import { createPool, eventually } from "../support/index.ts";
import { epoch, startBreakerPlace } from "./support/breaker-place.ts";

const transient = { failureClass: "transient" } as const;

test("a breaker opens at its failure rate, not before its minimum of attempts, and says how many failed", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { failureRate: 0.6, minimum: 10, windowMs: 30_000, openMs: 20_000 });

  await place.record("api", 9, transient);
  const tooFew = await place.step("api");
  await place.record("api", 7);
  const tooRare = await place.step("api");
  const before = await place.revision();
  await place.record("api", 2, transient);
  const opened = await place.step("api");
  const after = await place.revision();
  const again = await place.step("api");

  expect([tooFew?.state, tooRare?.state]).toEqual(["closed", "closed"]);
  expect(opened).toMatchObject({ state: "open", reason: "11 of 18 attempts failed within 30 s" });
  expect(opened?.probeMs).toBeCloseTo(20_000, -3);
  expect(again?.state).toBe("open");
  expect(await place.events()).toEqual([["open", "waybill", opened?.reason]]);
  // Steps that change nothing make nobody read the settings again.
  expect([before, after, await place.revision()]).toEqual([before, before + 1, before + 1]);
});

test("a rate that is met exactly opens the breaker, also where its decimal has no binary equal", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { failureRate: 0.07, minimum: 100 });
  await place.record("api", 7, transient);
  await place.record("api", 93);

  expect((await place.step("api"))?.state).toBe("open");
});

test("attempts older than the window count no more, and are forgotten", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 10, windowMs: 5_000 });
  await place.record("api", 9, transient);
  await place.pass(7_000);

  await place.record("api", 1, transient);
  const moved = await place.step("api");

  expect(moved?.state).toBe("closed");
  expect(await place.app.count("waybill.dependency_outcome")).toBe(1);
});

test("a breaker is half open when its probe is due, opens for twice as long with each failed probe up to its longest pause, and a probe that succeeds closes it", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1, openMs: 1_000, openMaxMs: 3_000 });
  await place.record("api", 10, transient);
  expect((await place.step("api"))?.state).toBe("open");
  expect((await place.step("api"))?.state).toBe("open");

  const pauses: (number | undefined)[] = [];
  for (let probes = 0; probes < 3; probes += 1) {
    await place.pass(3_001);
    expect((await place.step("api"))?.state).toBe("half_open");
    // Nothing has been tried yet.
    expect((await place.step("api"))?.state).toBe("half_open");
    await place.record("api", 1, transient);
    const opened = await place.step("api");
    expect(opened).toMatchObject({ state: "open", reason: "a probe failed" });
    pauses.push(opened?.probeMs ?? undefined);
  }
  await place.pass(3_001);
  await place.step("api");
  await place.record("api", 1);
  const closed = await place.step("api");
  const later = await place.step("api");

  expect(pauses.map((ms) => Math.round((ms ?? 0) / 1_000))).toEqual([2, 3, 3]);
  expect(closed).toMatchObject({ state: "closed", reason: "a probe succeeded", probeMs: null });
  // What failed before does not open it again.
  expect(later?.state).toBe("closed");
  const [record] = await place.dependencies.list();
  expect(record).toMatchObject({ openings: 0, counted: { succeeded: 0, failed: 0 } });
  expect((await place.events()).map(([state]) => state).join(" ")).toBe(
    "open half_open open half_open open half_open open half_open closed",
  );
});

test("an attempt that began before the breaker was half open closes it as little as it opens it again", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1, openMs: 1_000 });
  await place.record("api", 1, transient);
  await place.step("api");
  await place.pass(1_001);
  expect((await place.step("api"))?.state).toBe("half_open");
  await place.pass(500);

  await place.record("api", 3, { ageMs: 60_000 });
  await place.record("api", 3, { ...transient, ageMs: 60_000 });
  const afterLate = await place.step("api");
  await place.record("api", 1, { ageMs: 400 });
  const afterProbe = await place.step("api");

  expect(afterLate?.state).toBe("half_open");
  expect(afterProbe?.state).toBe("closed");
});

test("outcomes of a statement that began before the breaker changed are not counted after it", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1, openMs: 1_000 });
  await place.record("api", 1, transient);
  await place.step("api");
  await place.pass(1_001);
  const client = await place.app.pool.connect();
  try {
    // Sees the breaker open, whatever happens meanwhile.
    await client.query("begin isolation level repeatable read");
    await client.query("select from waybill.dependency");
    expect((await place.step("api"))?.state).toBe("half_open");

    await createDependencyStore(client).record([
      { dependency: "api", failureClass: null, ageMs: 0, attempts: 1 },
    ]);
    await client.query("commit");

    expect((await place.step("api"))?.state).toBe("half_open");
    expect(await place.app.count("waybill.dependency_outcome")).toBe(0);
  } finally {
    client.release();
  }
});

test("the counts of workers that tell at the same time add up, whatever the order of their dependencies", async () => {
  await using place = await startBreakerPlace();
  const names = ["a", "b", "c", "d"];
  for (const name of names) await place.declare(name, { minimum: 10_000 });
  const other = createPool(place.app.db.url, 5);
  try {
    const workers = [place.store, createDependencyStore(other)];
    await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const reports = names.flatMap((dependency) => [
          { dependency, failureClass: null, ageMs: 0, attempts: 2 },
          { dependency, failureClass: "timeout" as const, ageMs: 0, attempts: 1 },
        ]);
        await workers[n % 2]?.record(n % 4 < 2 ? reports : reports.toReversed());
      }),
    );
  } finally {
    await other.end();
  }

  const counted = (await place.dependencies.list()).map((each) => each.counted);
  expect(counted).toEqual(names.map(() => ({ succeeded: 120, failed: 60 })));
});

test("failures count by the classes of the dependency, others show that it answers, and jobs that did not run count nothing", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api");
  await place.declare("strict", { classes: ["unknown", "crashed"] });

  for (const failureClass of failureClasses) {
    await place.record("api", 1, { failureClass });
    await place.record("strict", 1, { failureClass });
  }
  await place.record("nobody-declared-it", 1, transient);

  expect((await place.dependencies.list()).map(({ name, counted }) => [name, counted])).toEqual([
    // Of the eleven classes four are of jobs that did not run.
    ["api", { succeeded: 4, failed: 3 }],
    ["strict", { succeeded: 6, failed: 2 }],
  ]);
  expect(await place.app.count("waybill.dependency_outcome where dependency like 'nobody%'")).toBe(
    0,
  );
});

test("a relay without the term moves no breaker", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1 });
  await place.record("api", 1, transient);

  const other = await place.store.step("6");
  await place.app.pool.query("update waybill.relay set lease_until = null");
  const released = await place.store.step(epoch);

  expect([other, released]).toEqual([[], []]);
  expect((await place.dependencies.list())[0]).toMatchObject({
    state: "closed",
    counted: { failed: 1 },
  });
  expect(await place.events()).toEqual([]);
});

test("an operator's act that commits while a step waits for it stands", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1 });
  await place.record("api", 1, transient);
  let stepping: Promise<unknown> = Promise.resolve();

  await place.app.database.transaction(async (tx) => {
    await place.dependencies.open("api", { tx, reason: "their maintenance" });
    stepping = place.step("api");
    await eventually(async () => (await place.app.count("pg_locks where not granted")) > 0);
  });
  await stepping;

  expect((await place.dependencies.list())[0]).toMatchObject({
    state: "open",
    manual: true,
    reason: "their maintenance",
    changedBy: "tester",
    openings: 0,
  });
  expect(await place.events()).toEqual([["open", "tester", "their maintenance"]]);
});

test("two relays that step at the same time change a breaker once", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1, openMs: 60_000 });
  await place.record("api", 1, transient);

  await Promise.all(Array.from({ length: 8 }, () => place.step("api")));

  expect((await place.dependencies.list())[0]).toMatchObject({ state: "open", openings: 1 });
  expect(await place.events()).toHaveLength(1);
});

test("a clock that was set back by a day keeps no breaker open and loses no probe", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1, openMs: 1_000, openMaxMs: 2_000 });
  await place.record("api", 1, transient);
  await place.step("api");
  await place.pass(-86_400_000);

  const opened = await place.step("api");
  await place.pass(2_001);
  const probing = await place.step("api");
  await place.pass(-86_400_000);
  await place.step("api");
  await place.record("api", 1);
  const closed = await place.step("api");

  expect(opened?.state).toBe("open");
  expect(opened?.probeMs).toBeLessThanOrEqual(2_000);
  expect(probing?.state).toBe("half_open");
  expect(closed?.state).toBe("closed");
  expect((await place.events()).map(([state]) => state)).toEqual(["open", "half_open", "closed"]);
});

test("a declaration that says the same changes nothing, and another one keeps the state", async () => {
  await using place = await startBreakerPlace();
  const definition = await place.declare("api", { minimum: 1 });
  await place.record("api", 1, transient);
  await place.step("api");
  const before = await place.revision();

  const same = await place.store.declare([definition]);
  const afterSame = await place.revision();
  await place.declare("api", { minimum: 20 });

  expect(same).toEqual([]);
  expect([afterSame, await place.revision()]).toEqual([before, before + 1]);
  expect((await place.dependencies.list())[0]).toMatchObject({
    state: "open",
    settings: { minimum: 20 },
  });
});

test("workers that start at the same time with dependencies in different orders declare them all", async () => {
  await using place = await startBreakerPlace();
  const definitions = await Promise.all(["a", "b", "c"].map((name) => place.declare(name)));
  const other = definitions.map((each) => ({
    ...each,
    settings: { ...each.settings, minimum: 99 },
  }));

  await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      place.store.declare(n % 2 === 0 ? other : definitions.toReversed()),
    ),
  );

  expect((await place.dependencies.list()).map(({ name }) => name)).toEqual(["a", "b", "c"]);
});
