import { ConfigError } from "@waybill/core";
import { expect, test } from "vitest";
import { resolveThreadOptions, type ThreadHandlerOptions } from "./options.ts";

const here = new URL(import.meta.url);

const problemsOf = (options: unknown): unknown => {
  try {
    resolveThreadOptions("report.render", options as ThreadHandlerOptions);
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).issues.map(({ path, message }) => `${path}: ${message}`);
  }
};

test("options of a thread have their defaults", () => {
  expect(resolveThreadOptions("report.render", { isolation: "thread", module: here })).toEqual({
    isolation: "thread",
    module: here,
    exportName: "run",
    heapMb: 256,
  });
});

test("every problem of a thread's options is named at once", () => {
  const module = new URL("missing.ts", here);

  expect(
    problemsOf({ isolation: "thread", module, exportName: "", heapMb: 8, threads: 65, cpu: 1 }),
  ).toEqual([
    `module: there is no file ${module.href}; a build must keep the module as a file of its own`,
    expect.stringMatching(/^exportName: /),
    expect.stringMatching(/^heapMb: /),
    expect.stringMatching(/^threads: /),
    expect.stringMatching(/^: Unrecognized key: "cpu"/),
  ]);
});

test.each([["./render.ts"], [new URL("https://example.com/render.ts")], [undefined]])(
  "a module that is no file URL is refused (%s)",
  (module) => {
    expect(problemsOf({ isolation: "thread", module })).toEqual([
      'module: expected a file URL, such as new URL("./render.ts", import.meta.url)',
    ]);
  },
);

test("a folder is no module for a thread", () => {
  const module = new URL(".", here);

  expect(problemsOf({ isolation: "thread", module })).toEqual([
    `module: there is no file ${module.href}; a build must keep the module as a file of its own`,
  ]);
});
