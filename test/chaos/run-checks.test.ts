import { expect, test } from "vitest";
import type { Member } from "./cast.ts";
import type { Disturbance } from "./chronicle.ts";
import { brokenLimits, recoveriesOf, takeoversOf } from "./run-checks.ts";
import type { Run } from "./run-log.ts";

function run(id: string, worker: string, startMs: number, endMs?: number): Run {
  const outcome = endMs === undefined ? undefined : "done";
  return { id, worker, startMs, endMs, outcome, queue: "limited", key: "tenant" };
}

/** Only what the checks read of them. */
function members(given: Readonly<Record<string, Partial<Member>>>): ReadonlyMap<string, Member> {
  return new Map(
    Object.entries(given).map(([name, some]) => [
      name,
      { name, killedMs: undefined, freezes: [], ...some } as unknown as Member,
    ]),
  );
}

test("a start above the limit of a key is found, also beside the run of a worker that was killed", () => {
  const cast = members({ a: { killedMs: 50 }, b: {} });

  const found = brokenLimits(
    [run("1", "a", 0), run("2", "b", 10, 60), run("3", "b", 40, 45), run("4", "b", 50, 60)],
    cast,
  );

  expect(found).toMatchObject([{ what: "starts above the limit of a key", count: 1 }]);
});

test("the run of a frozen worker is over where it froze", () => {
  const cast = members({ a: { freezes: [{ fromMs: 5, toMs: 90 }] }, b: {} });

  expect(
    brokenLimits([run("1", "a", 0, 100), run("2", "b", 10, 60), run("3", "b", 40, 60)], cast),
  ).toEqual([]);
});

test("a takeover is from the kill to the first start elsewhere, and only where nothing else was wrong", () => {
  const cast = members({ a: { killedMs: 100 }, b: {} });
  const runs = [
    run("1", "a", 50),
    run("2", "a", 60),
    run("1", "b", 400, 500),
    run("2", "b", 300, 500),
  ];
  const link = (fromMs: number, toMs: number): Disturbance => ({ what: "link", fromMs, toMs });

  expect(takeoversOf(runs, cast, [])).toEqual([200]);
  expect(takeoversOf(runs, cast, [link(0, 90), link(350, 400)])).toEqual([200]);
  expect(takeoversOf(runs, cast, [link(150, 160)])).toEqual([]);
});

test("a recovery is from the end of an outage to the first job that was started and done after it", () => {
  const outage = (fromMs: number, toMs: number): Disturbance => ({ what: "broker", fromMs, toMs });
  const runs = [run("1", "a", 90, 150), run("2", "a", 300, 400), run("3", "a", 900, 950)];

  expect(recoveriesOf(runs, [outage(0, 100)])).toEqual([300]);
  expect(recoveriesOf(runs, [outage(0, 100), outage(350, 500)])).toEqual([450]);
});
