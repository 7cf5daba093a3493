import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { canTransition, isTerminal, type JobState, jobStates, transitions } from "./states.ts";

const states = fc.constantFrom(...jobStates);

/** A walk over allowed steps only, from queued on. */
const walks = fc.array(fc.nat(), { maxLength: 40 }).map((choices) => {
  const walk: JobState[] = ["queued"];
  for (const choice of choices) {
    const next = transitions[walk.at(-1) ?? "queued"];
    if (next.length === 0) break;
    walk.push(next[choice % next.length] ?? "queued");
  }
  return walk;
});

test("every walk over allowed steps visits known states and never queued again", () => {
  fc.assert(
    fc.property(walks, (walk) => {
      expect(walk.every((state) => jobStates.includes(state))).toBe(true);
      expect(walk.lastIndexOf("queued")).toBe(0);
    }),
  );
});

test("succeeded and cancelled are written once: no step leads out of them", () => {
  fc.assert(
    fc.property(states, (to) => {
      expect(canTransition("succeeded", to)).toBe(false);
      expect(canTransition("cancelled", to)).toBe(false);
    }),
  );
});

test("a failed job leaves its state only by a redrive", () => {
  expect(transitions.failed).toEqual(["retry_waiting", "running"]);
});

test("no step leads from a state to itself", () => {
  for (const state of jobStates) expect(canTransition(state, state)).toBe(false);
});

test("a terminal state can be reached from every state that is not terminal", () => {
  const reach = (from: JobState, seen = new Set<JobState>([from])): Set<JobState> => {
    for (const to of transitions[from]) if (!seen.has(to)) reach(to, seen.add(to));
    return seen;
  };

  for (const state of jobStates) {
    if (isTerminal(state)) continue;
    expect([...reach(state)].filter(isTerminal)).toEqual(
      expect.arrayContaining(["succeeded", "failed", "cancelled"]),
    );
  }
});

test("the inbox's check constraint knows the same six states", () => {
  const file = new URL("../../postgres/sql/migrations/0002_inbox.sql", import.meta.url);
  const sql = readFileSync(file, "utf8");

  const listed = /inbox_state_known check \(state in \(([^)]*)\)/.exec(sql)?.[1] ?? "";

  expect([...listed.matchAll(/'([a-z_]+)'/g)].map((match) => match[1] ?? "").sort()).toEqual(
    [...jobStates].sort(),
  );
});
