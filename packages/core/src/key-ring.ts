/** Secret keys with names, so that one can follow another without a day on which nothing fits. */

import { createSecretKey, type KeyObject } from "node:crypto";
import { ConfigError, type ConfigIssue } from "./errors.ts";

/** Bytes of a key: what AES-256 takes, and as much as HMAC-SHA-256 has any use for. */
const keyBytes = 32;
const keysMax = 20;
/** A key's id, as a part of a pattern. */
export const keyIdSource = "[A-Za-z0-9][A-Za-z0-9._-]{0,39}";
const keyIdPattern = new RegExp(`^${keyIdSource}$`);

/** Keys by their ids. Made by {@link createKeyRing}; shows no key where it is printed or logged. */
export interface KeyRing {
  /** Id of the key that signs and encrypts. */
  readonly currentId: string;
  /** The key of an id; undefined where the ring has none. */
  key(id: string): KeyObject | undefined;
}

class SecretKeyRing implements KeyRing {
  readonly currentId: string;
  readonly #keys: ReadonlyMap<string, KeyObject>;

  constructor(currentId: string, keys: ReadonlyMap<string, KeyObject>) {
    this.currentId = currentId;
    this.#keys = keys;
  }

  key(id: string): KeyObject | undefined {
    return this.#keys.get(id);
  }
}

const remedy =
  "write each key as <id>:<base64 of 32 random bytes>, made by: openssl rand -base64 32";

/** What is wrong with one key of a ring, in words that hold nothing of the key. */
function problemOf(id: string, secret: Buffer, known: ReadonlySet<string>): string | undefined {
  if (!keyIdPattern.test(id)) {
    return "has no id of 1 to 40 letters, digits, '.', '_' and '-', a letter or digit first";
  }
  if (known.has(id)) return `"${id}" is there twice`;
  if (secret.length !== keyBytes) {
    return `"${id}" has ${secret.length} bytes in base64, not ${keyBytes}`;
  }
  return undefined;
}

/**
 * Reads a ring of 1 to 20 keys, each written as `<id>:<base64 of 32 bytes>`, with spaces, commas or line
 * ends between them. The first key signs and encrypts; all of them verify and open. The id is no
 * secret: it travels with what the key has made.
 *
 * @throws ConfigError that names every problem, and nothing of any key
 *
 * @example
 * const keys = createKeyRing(await readFile("signing-keys", "utf8"));
 */
export function createKeyRing(text: string): KeyRing {
  const subject = "createKeyRing";
  const entries =
    typeof text === "string" ? text.split(/[\s,]+/).filter((each) => each !== "") : [];
  if (entries.length === 0 || entries.length > keysMax) {
    throw new ConfigError(subject, [
      {
        path: "keys",
        message: `${entries.length} were found, 1 to ${keysMax} expected; ${remedy}`,
      },
    ]);
  }
  const issues: ConfigIssue[] = [];
  const ids = new Set<string>();
  const keys = new Map<string, KeyObject>();
  for (const [n, entry] of entries.entries()) {
    const colon = entry.indexOf(":");
    const id = entry.slice(0, Math.max(0, colon));
    const secret = Buffer.from(entry.slice(colon + 1), "base64");
    const problem = problemOf(id, secret, ids);
    ids.add(id);
    if (problem === undefined) keys.set(id, createSecretKey(secret));
    else issues.push({ path: `key ${n + 1}`, message: `${problem}; ${remedy}` });
  }
  if (issues.length > 0) throw new ConfigError(subject, issues);
  const [currentId = ""] = ids;
  return new SecretKeyRing(currentId, keys);
}

/** True for what {@link createKeyRing} made, in whatever copy of this package. */
export function isKeyRing(value: unknown): value is KeyRing {
  return (
    typeof value === "object" &&
    value !== null &&
    "currentId" in value &&
    typeof value.currentId === "string" &&
    "key" in value &&
    typeof value.key === "function"
  );
}

/** What an option that takes a ring says about anything else. */
export const keyRingRule = "expected a ring of keys made by createKeyRing";
