import { randomBytes } from "node:crypto";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { ConfigError } from "./errors.ts";
import { createKeyRing, isKeyRing } from "./key-ring.ts";

const secret = (): string => randomBytes(32).toString("base64");

test.each([", ", "\n", " ", "\r\n\r\n"])(
  "a ring takes its keys with %j between them",
  (between) => {
    const ring = createKeyRing(`2026-11:${secret()}${between}2026-05:${secret()}\n`);

    expect(ring.currentId).toBe("2026-11");
    expect(ring.key("2026-05")).toBeDefined();
    expect(ring.key("2025-11")).toBeUndefined();
    expect(ring.key("__proto__")).toBeUndefined();
    expect(isKeyRing(ring)).toBe(true);
  },
);

test("a ring shows no key where it is printed", () => {
  const key = secret();
  const ring = createKeyRing(`a:${key}`);
  const hex = Buffer.from(key, "base64").toString("hex");

  const shown = `${inspect(ring, { depth: 9, showHidden: true })}${JSON.stringify(ring)}`;

  expect(shown).not.toContain(key.slice(0, 8));
  expect(shown.replaceAll(" ", "")).not.toContain(hex.slice(0, 8));
});

test("a bad ring is refused with every problem, and without its keys", () => {
  const short = randomBytes(16).toString("base64");
  const good = secret();

  const error = ((): ConfigError => {
    try {
      createKeyRing(`a:${short}, ${good}, ok:${good}, ok:${good}, -:${good}`);
    } catch (thrown) {
      return thrown as ConfigError;
    }
    throw new Error("It was accepted.");
  })();

  expect(error).toBeInstanceOf(ConfigError);
  expect(error.issues.map(({ path, message }) => `${path} ${message.split(";")[0]}`)).toEqual([
    'key 1 "a" has 16 bytes in base64, not 32',
    "key 2 has no id of 1 to 40 letters, digits, '.', '_' and '-', a letter or digit first",
    'key 4 "ok" is there twice',
    "key 5 has no id of 1 to 40 letters, digits, '.', '_' and '-', a letter or digit first",
  ]);
  expect(error.message).not.toContain(short.slice(0, 10));
  expect(error.message).not.toContain(good.slice(0, 10));
});

test.each(["", "  ,\n", undefined as unknown as string])(
  "a ring without a key is refused: %j",
  (text) => {
    expect(() => createKeyRing(text)).toThrow("0 were found, 1 to 20 expected");
  },
);
