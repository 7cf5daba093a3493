/** What operators see of breakers and do to them. */

import { ConfigError } from "@waybill/core";
import { createDependencies, createRelayStore } from "@waybill/postgres";
import { expect, test } from "vitest";
import { startBreakerPlace } from "./support/breaker-place.ts";

const transient = { failureClass: "transient" } as const;

test("a breaker that an operator opened stays open until an operator closes it, and both acts are recorded", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1, openMs: 1_000 });
  const { dependencies } = place;

  const opened = await dependencies.open("api", { reason: "their maintenance", actor: "anna" });
  await place.pass(86_400_000);
  const stepped = await place.step("api");
  await place.record("api", 1, { ageMs: 1 });
  await place.step("api");
  const closed = await dependencies.close("api", { reason: "they are back" });
  const later = await place.step("api");

  expect(opened).toMatchObject({
    name: "api",
    state: "open",
    manual: true,
    reason: "their maintenance",
    probeAt: null,
    probeInMs: null,
    changedBy: "anna",
  });
  expect(stepped).toMatchObject({ state: "open", probeMs: null });
  expect(closed).toMatchObject({
    state: "closed",
    manual: false,
    reason: "they are back",
    changedBy: "tester",
    counted: { succeeded: 0, failed: 0 },
  });
  expect(later?.state).toBe("closed");
  expect(await dependencies.history("api")).toMatchObject([
    { dependency: "api", state: "closed", reason: "they are back", actor: "tester" },
    { dependency: "api", state: "open", reason: "their maintenance", actor: "anna" },
  ]);
  expect(
    await place.app.db.rows(
      "select actor, action, id, detail from waybill.audit_log order by audit_id",
    ),
  ).toEqual([
    { actor: "anna", action: "open", id: null, detail: "api: their maintenance" },
    { actor: "tester", action: "close", id: null, detail: "api: they are back" },
  ]);
});

test("a breaker that opened by itself can be kept open by hand, and closed by hand without a probe", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api", { minimum: 1, openMs: 1_000 });
  await place.record("api", 1, transient);
  await place.step("api");

  const kept = await place.dependencies.open("api");
  await place.pass(60_000);
  const stepped = await place.step("api");
  await place.dependencies.close("api");
  // What has failed before is forgotten.
  const closed = await place.step("api");

  expect(kept).toMatchObject({ state: "open", manual: true, reason: null });
  expect(stepped?.state).toBe("open");
  expect(closed?.state).toBe("closed");
});

test("each act makes relays and workers read the settings again, and one that is rolled back never happened", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api");
  const before = await place.revision();

  await place.app.database
    .transaction(async (tx) => {
      expect((await place.dependencies.open("api", { tx })).state).toBe("open");
      expect((await place.dependencies.list({ tx }))[0]?.state).toBe("open");
      throw new Error("no");
    })
    .catch(() => undefined);
  const afterRollback = await place.revision();
  await place.dependencies.open("api");

  expect([afterRollback, await place.revision()]).toEqual([before, before + 1]);
  expect(await place.app.count("waybill.audit_log")).toBe(1);
});

test("a list holds what each breaker counts, and when its next probe may go", async () => {
  await using place = await startBreakerPlace();
  await place.declare("billing", { minimum: 1, openMs: 60_000 });
  await place.declare("api", { failureRate: 0.25 });
  await place.record("billing", 1, transient);
  await place.record("api", 3);
  await place.record("api", 1, transient);
  await place.step("api");

  const [api, billing, ...more] = await place.dependencies.list();

  expect(more).toEqual([]);
  expect(api).toMatchObject({
    name: "api",
    settings: { failureRate: 0.25, minimum: 10 },
    state: "closed",
    manual: false,
    reason: null,
    probeAt: null,
    probeInMs: null,
    changedBy: "waybill",
    counted: { succeeded: 3, failed: 1 },
  });
  expect(billing).toMatchObject({ name: "billing", state: "open", openings: 1 });
  expect(billing?.probeAt).toBeInstanceOf(Date);
  expect(billing?.probeInMs).toBeGreaterThan(50_000);
  expect(billing?.changedAt).toBeInstanceOf(Date);
});

test("a history is read in pages, and its events are pruned by their age", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api");
  await place.declare("other");
  await place.dependencies.open("other");
  for (const reason of ["one", "two", "three"]) await place.dependencies.open("api", { reason });
  const { dependencies } = place;

  const page = await dependencies.history("api", { limit: 2 });
  const next = await dependencies.history("api", { limit: 2, before: page[1]?.id });
  await place.app.pool.query(
    "update waybill.dependency_event set at = now() - interval '2 days' where reason in ('one', 'two')",
  );
  const pruned = await createRelayStore(place.app.pool).prune("dependency_events", 86_400_000, 100);

  expect(page.map(({ reason }) => reason)).toEqual(["three", "two"]);
  expect(next.map(({ reason }) => reason)).toEqual(["one"]);
  expect(pruned).toBe(2);
  expect((await dependencies.history("api")).map(({ reason }) => reason)).toEqual(["three"]);
  expect(await dependencies.history("other")).toHaveLength(1);
});

test("a dependency that nobody has declared is refused with the known ones, and nothing is recorded", async () => {
  await using place = await startBreakerPlace();
  const { dependencies } = place;

  await expect(dependencies.open("api")).rejects.toThrow(
    /"api" is no known dependency; none is known before a worker has declared it/,
  );
  await place.declare("payments-api");
  await place.declare("billing");
  for (const refused of [
    () => dependencies.open("payment-api"),
    () => dependencies.close("payment-api"),
    () => dependencies.history("payment-api"),
  ]) {
    await expect(refused).rejects.toThrow(
      /"payment-api" is no known dependency; known are billing, payments-api/,
    );
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
  }

  expect(await place.app.count("waybill.audit_log")).toBe(0);
});

test("options that are unknown or out of bounds are refused", async () => {
  await using place = await startBreakerPlace();
  await place.declare("api");
  const { dependencies } = place;

  const refused: readonly (readonly [() => unknown, RegExp])[] = [
    [() => dependencies.open(""), /name: must be a text/],
    [() => dependencies.open("api", { reason: "x".repeat(1_001) }), /reason: must be a text/],
    [() => dependencies.close("api", { actor: "" }), /actor: must be a text/],
    [() => dependencies.close("api", { force: true } as object), /force: is not an option/],
    [() => dependencies.history("api", { limit: 0 }), /limit: must be an integer from 1 to 1000/],
    [() => dependencies.history("api", { before: "x" }), /before: must be the id of a change/],
    [() => dependencies.list({ all: true } as object), /all: is not an option/],
    [async () => createDependencies({} as never), /database: must be a Database/],
  ];
  for (const [act, message] of refused) {
    await expect(async () => await act()).rejects.toThrow(message);
  }
});
