import { expect, test } from "vitest";
import { faultKinds } from "./faults.ts";
import { planOf } from "./plan.ts";
import { failpointFor, scheduleOf } from "./schedule.ts";

test("a schedule is a function of its seed", () => {
  const plan = planOf("smoke", 3);

  expect(scheduleOf(7, plan)).toEqual(scheduleOf(7, plan));
  expect(scheduleOf(7, plan)).not.toEqual(scheduleOf(8, plan));
  expect(failpoints(7)).toEqual(failpoints(7));
  expect(failpoints(7)).not.toEqual(failpoints(8));
});

test("a schedule has every kind of fault, and as many kills and cuts as its plan asks for", () => {
  for (const [mode, minutes] of [
    ["smoke", 3],
    ["smoke", 1],
    ["release", 30],
  ] as const) {
    const plan = planOf(mode, minutes);
    const schedule = scheduleOf(1, plan);
    const count = (pattern: RegExp): number =>
      schedule.filter(({ fault }) => pattern.test(fault)).length;

    expect(new Set(schedule.map(({ fault }) => fault))).toEqual(
      new Set(faultKinds.map(({ name }) => name)),
    );
    expect(count(/^kill (producer|relay|worker)$/)).toBeGreaterThanOrEqual(plan.processKills);
    expect(count(/^kill broker$/)).toBe(plan.brokerKills);
    expect(count(/^(kill database|immediate shutdown)$/)).toBeGreaterThanOrEqual(
      plan.databaseKills,
    );
    expect(
      schedule.filter(({ fault, lane }) => lane === "network" && !/^(delay|throttle)$/.test(fault))
        .length,
    ).toBeGreaterThanOrEqual(plan.cuts);
    expect(schedule.every(({ atMs }) => atMs >= 0 && atMs <= plan.faultsMs)).toBe(true);
  }
});

test("the modes ask for at least what they promise", () => {
  const smoke = planOf("smoke", 3);
  const kills = smoke.processKills + smoke.brokerKills + smoke.databaseKills;

  expect(smoke.jobs).toBeGreaterThanOrEqual(5_000);
  expect(kills).toBeGreaterThanOrEqual(60);
  expect(planOf("release", 30)).toMatchObject({
    jobs: 100_000,
    processKills: 900,
    brokerKills: 75,
    databaseKills: 100,
    cuts: 200,
  });
});

function failpoints(seed: number): readonly unknown[] {
  return Array.from({ length: 50 }, (_, n) => failpointFor(seed, "worker", n, 1_000));
}
