import { describe, expect, test } from "vitest";
import { startProcess } from "../support/index.ts";

/** Lines of a process that meets this kind of stray error, with a neighbour that runs on. */
async function eventsOf(
  args: readonly string[],
  execArgv: readonly string[] = [],
): Promise<readonly string[]> {
  await using child = await startProcess(
    new URL("modules/stray-errors.ts", import.meta.url),
    args,
    {},
    { execArgv },
  );
  expect(await child.exited, child.lines.join("\n")).toEqual({ code: 0, signal: null });
  return child.stdout;
}

const outside = "error outside the handler's promise";
const neighbourEnds = "end | neighbour | done";
const listeners = "listeners | 1 | 0";

describe("G3: an error outside the handler's promise fails its own job and no other", () => {
  test.each([
    ["a promise that rejects and is forgotten", "rejection", "stray"],
    ["a promise that rejects later", "late rejection", "stray"],
    ["a promise that is awaited too late", "rejection that is handled too late", "stray"],
    ["a throw in setTimeout", "setTimeout", "stray"],
    ["a throw in setImmediate", "setImmediate", "stray"],
    ["a throw in process.nextTick", "nextTick", "stray"],
    ["a throw in an abort listener", "abort listener", "stray"],
    ["a socket whose error nobody listens to", "socket", "ECONNRESET"],
  ])("%s", async (_what, kind, error) => {
    expect(await eventsOf([kind])).toEqual([
      `log | first | job | ${outside} | ${error}`,
      `end | job | failed with ${error}`,
      neighbourEnds,
      listeners,
    ]);
  });

  test.each([
    ["a rejection with a text", "rejection without an Error", "string", "words"],
    ["a thrown null", "null", "null", "The handler threw a value that is no Error: null"],
    ["a thrown value that cannot be read", "revoked proxy", "object", /is no Error: object/],
  ])("%s, which is logged as an Error", async (_what, kind, type, logged) => {
    const [log, ...rest] = await eventsOf([kind]);

    expect(log).toMatch(logged);
    expect(rest).toEqual([
      `end | job | failed with no Error but ${type}`,
      neighbourEnds,
      listeners,
    ]);
  });
});

test("an error after a job's end is logged with the job, and changes nothing", async () => {
  expect(await eventsOf(["rejection after the end"])).toEqual([
    "end | job | done",
    `log | first | job | ${outside}, after the job had ended | stray`,
    neighbourEnds,
    listeners,
  ]);
});

test.each([
  ["outside any job", ["nothing", "outside"]],
  ["in a listener on an emitter that all share", ["shared emitter"]],
])("an error %s is told to the worker, and its jobs run on", async (_where, args) => {
  expect(await eventsOf(args)).toEqual([
    "end | job | done",
    "log | first | - | error outside any job | stray",
    "told | first | stray",
    neighbourEnds,
    listeners,
  ]);
});

test("an error of a job is the business of its own worker, one outside any job that of all", async () => {
  expect(await eventsOf(["setTimeout", "two-workers", "outside"])).toEqual([
    `log | second | job | ${outside} | stray`,
    "end | job | failed with stray",
    "log | first | - | error outside any job | stray",
    "told | first | stray",
    "log | second | - | error outside any job | stray",
    "told | second | stray",
    neighbourEnds,
    listeners,
  ]);
});

test.each([["rejection"], ["setTimeout"]])(
  "the application's own listeners get a stray %s as well",
  async (kind) => {
    expect(await eventsOf([kind, "own-listeners"])).toEqual([
      `log | first | job | ${outside} | stray`,
      "application | stray",
      "end | job | failed with stray",
      neighbourEnds,
      "listeners | 2 | 1",
    ]);
  },
);

test("a stray rejection is met once where Node raises rejections as exceptions too", async () => {
  expect(await eventsOf(["rejection"], ["--unhandled-rejections=strict"])).toEqual([
    `log | first | job | ${outside} | stray`,
    "end | job | failed with stray",
    neighbourEnds,
    listeners,
  ]);
});
