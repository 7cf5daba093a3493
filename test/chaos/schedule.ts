/** When which fault is done: a pure function of the seed and the plan. */

import { chance } from "../../scripts/stage/chance.ts";
import { relayFailpoints } from "../../packages/relay/src/internals.ts";
import { workerFailpoints } from "../../packages/worker/src/internals.ts";
import type { FailpointPlan } from "./failpoint.ts";
import { type FaultKind, faultKinds, type Lane, type Role } from "./faults.ts";
import type { Plan } from "./plan.ts";

/** One fault. */
export interface FaultEvent {
  readonly fault: string;
  readonly lane: Lane;
  /** Since the beginning of the faults, in milliseconds; later where its lane is busy. */
  readonly atMs: number;
  readonly lastsMs: number;
  /** Which of those that it may hit: in [0, 1), of as many as there are then. */
  readonly pick: number;
}

/** How many faults of a kind there are: at least one where the plan has any of what it goes by. */
function countOf(kind: FaultKind, plan: Plan): number {
  return Math.ceil(kind.count * plan[kind.per]);
}

/** All faults in their order. Those of a kind are spread over the time, each anywhere in its part of it. */
export function scheduleOf(seed: number, plan: Plan): readonly FaultEvent[] {
  return faultKinds
    .flatMap((kind) => {
      const count = countOf(kind, plan);
      return Array.from({ length: count }, (_, n): FaultEvent => {
        const of = (what: string): number => chance(seed, kind.name, n, what);
        const [from, to] = kind.lastsMs;
        return {
          fault: kind.name,
          lane: kind.lane,
          atMs: Math.round(((n + of("at")) / count) * plan.faultsMs),
          lastsMs: Math.round(from + of("lasts") * (to - from)),
          pick: of("pick"),
        };
      });
    })
    .toSorted((a, b) => a.atMs - b.atMs || a.fault.localeCompare(b.fault));
}

/** Every so many processes of relays and workers get a failpoint. */
const armed = 0.2;

/** The failpoint that the n-th process of a role gets; undefined: none. */
export function failpointFor(
  seed: number,
  role: Role,
  n: number,
  untilMs: number,
): FailpointPlan | undefined {
  const of = (what: string): number => chance(seed, "failpoint", role, n, what);
  const points: readonly string[] =
    role === "relay" ? relayFailpoints : role === "worker" ? workerFailpoints : [];
  const point = points[Math.floor(of("point") * points.length)];
  if (point === undefined || of("armed") >= armed) return undefined;
  const actions = ["throw", "hang", "exit"] as const;
  return {
    point,
    pass: 1 + Math.floor(of("pass") * 20),
    action: actions[Math.floor(of("action") * actions.length)] ?? "exit",
    untilMs,
  };
}
