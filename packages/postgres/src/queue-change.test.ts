import { expect, test } from "vitest";
import { overridesAfter } from "./queue-change.ts";
import { changeWords } from "./queue-words.ts";

const problemsOf = (work: () => unknown): readonly string[] => {
  try {
    work();
    return [];
  } catch (error) {
    return (error as { issues: { path: string; message: string }[] }).issues.map(
      ({ path, message }) => `${path}: ${message}`,
    );
  }
};

test("a change keeps the other overrides, and null takes a declared setting away", () => {
  const declared = { concurrency: 10, rate: { limit: 5 } };

  const after = overridesAfter("set", { rate: null }, declared, { concurrency: 3 }, []);

  expect(after).toEqual({ concurrency: 3, rate: null });
});

test("every problem of the result is named at once, those of code and operator together as well", () => {
  const change = {
    keys: { concurrency: 20 },
    rate: { limit: 0 },
    dependsOn: ["payments"],
    wieght: null,
  };

  const problems = problemsOf(() =>
    overridesAfter("set", change, { concurrency: 10 }, {}, ["mail-api"]),
  );

  expect(problems).toEqual([
    expect.stringMatching(/^rate\.limit: /),
    expect.stringMatching(/^wieght: is no setting; there are concurrency, rate, /),
    expect.stringMatching(/^keys\.concurrency: is 20, more than the queue's own limit of 10/),
    'dependsOn: "payments" is no dependency; declared are mail-api',
  ]);
});

test.each([null, [], "concurrency", 5])(
  "what is no object of settings is refused: %j",
  (change) => {
    expect(problemsOf(() => overridesAfter("set", change as never, {}, {}, []))).toEqual([
      expect.stringMatching(/must be an object with some of concurrency, rate/),
    ]);
  },
);

test("a change is told in words, setting by setting", () => {
  const before = { concurrency: 10, rate: { limit: 200 }, order: {} };
  const after = { concurrency: 50, rate: { limit: 60, perMs: 60_000, burst: 5 }, order: {} };

  expect(changeWords(before, after)).toBe("concurrency 10 -> 50, rate 200/s -> 60/m burst 5");
  expect(changeWords(after, { keys: { weight: 2 } })).toBe(
    'concurrency 50 -> none, rate 60/m burst 5 -> none, keys none -> {"weight":2}, order {} -> none',
  );
});
