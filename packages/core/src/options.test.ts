import { expect, test } from "vitest";
import { z } from "zod";
import { ConfigError } from "./errors.ts";
import { parseOptions } from "./options.ts";

interface Example {
  readonly batchSize?: number | undefined;
  readonly name: string;
  readonly broker: { readonly url: string };
}

const schema: z.ZodType<Required<Example>, Example> = z.strictObject({
  batchSize: z.int().min(1).max(1_000).default(200),
  name: z.string().min(1),
  broker: z.strictObject({ url: z.url() }),
});

test("options get their defaults and are frozen", () => {
  const options = parseOptions("createExample", schema, { name: "a", broker: { url: "http://h" } });

  expect(options).toEqual({ batchSize: 200, name: "a", broker: { url: "http://h" } });
  expect(Object.isFrozen(options)).toBe(true);
});

test("every problem is reported at once, each with its path", () => {
  const wrong = { batchSize: 0, name: 5, broker: { url: "s3cret", usr: 1 }, batchsize: 3 };

  const error = catching(() => parseOptions("createExample", schema, wrong as unknown as Example));

  expect(error).toBeInstanceOf(ConfigError);
  const issues = (error as ConfigError).issues;
  expect(issues.map((issue) => issue.path).sort()).toEqual([
    "",
    "batchSize",
    "broker",
    "broker.url",
    "name",
  ]);
  expect((error as ConfigError).message).toMatch(
    /^Cannot use the configuration of createExample:\n {2}- /,
  );
  expect((error as ConfigError).message).toContain("batchsize");
});

test("a wrong option is named, its value is not repeated", () => {
  const wrong = { name: "a", broker: { url: "s3cret" } };

  const error = catching(() => parseOptions("createExample", schema, wrong));

  expect(String(error)).not.toContain("s3cret");
});

test("options that are no object are refused", () => {
  for (const value of [undefined, null, 1, "x", []]) {
    expect(() => parseOptions("createExample", schema, value as unknown as Example)).toThrow(
      ConfigError,
    );
  }
});

function catching(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}
