import { defineQueue, silentLogger } from "@waybill/core";
import type { DeclaredSettings } from "@waybill/postgres";
import { expect, test } from "vitest";
import { declareQueues, settingsOf } from "./declared-queues.ts";

const none = new Map<string, readonly string[]>();

test("a definition replaces what was declared before", () => {
  const definition = defineQueue({ name: "q", concurrency: 5, types: { a: { concurrency: 2 } } });

  expect(
    settingsOf({ rate: { limit: 1 } }, { queue: "q", definition, dependencies: none }),
  ).toEqual({ concurrency: 5, types: { a: { concurrency: 2 } } });
});

test("without a definition nothing is changed", () => {
  const stored = { concurrency: 5, types: { other: { dependsOn: ["x"] } } };
  const dependencies = new Map([["mine", []]]);

  expect(settingsOf(stored, { queue: "q", definition: undefined, dependencies })).toEqual(stored);
});

test("dependencies of job types are those of the worker that runs them; others keep theirs", () => {
  const stored = {
    types: {
      mine: { dependsOn: ["old"], concurrency: 2 },
      gone: { dependsOn: ["old"] },
      other: { dependsOn: ["x"] },
    },
  };
  const dependencies = new Map([
    ["mine", ["new"]],
    ["gone", []],
  ]);

  expect(settingsOf(stored, { queue: "q", definition: undefined, dependencies })).toEqual({
    types: { mine: { dependsOn: ["new"], concurrency: 2 }, other: { dependsOn: ["x"] } },
  });
});

test("dependencies of a definition and of its jobs come together", () => {
  const definition = defineQueue({ name: "q", types: { a: { dependsOn: ["x"] } } });
  const dependencies = new Map([["a", ["y", "x"]]]);

  expect(settingsOf({}, { queue: "q", definition, dependencies })).toEqual({
    types: { a: { dependsOn: ["x", "y"] } },
  });
});

test("a queue whose last dependency is gone has no types any more", () => {
  const dependencies = new Map([["a", []]]);

  expect(
    settingsOf(
      { types: { a: { dependsOn: ["x"] } } },
      { queue: "q", definition: undefined, dependencies },
    ),
  ).toEqual({});
});

test("settings that others have written meanwhile are read again before they are replaced", async () => {
  const written: [DeclaredSettings, DeclaredSettings][] = [];
  const stored: DeclaredSettings[] = [{}, { types: { b: { dependsOn: ["y"] } } }];
  const store = {
    declared: () => Promise.resolve(new Map([["q", stored[written.length] ?? {}]])),
    declare: (_queue: string, settings: DeclaredSettings, read: DeclaredSettings) =>
      Promise.resolve(written.push([settings, read]) > 1),
  };
  const dependencies = new Map([["a", ["x"]]]);

  await declareQueues(store, [{ queue: "q", definition: undefined, dependencies }], silentLogger);

  expect(written[1]).toEqual([
    { types: { b: { dependsOn: ["y"] }, a: { dependsOn: ["x"] } } },
    { types: { b: { dependsOn: ["y"] } } },
  ]);
});
