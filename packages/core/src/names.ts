/**
 * Rules of names. A name is checked where it enters, so that no later place has to quote, cut or
 * escape it: PostgreSQL cuts identifiers at 63 bytes and AMQP short strings end at 255.
 */

import { NameError } from "./errors.ts";

const queuePattern = /^[a-z0-9](?:[a-z0-9_-]|\.(?=[a-z0-9]))*$/;
const typePattern = /^[A-Za-z0-9](?:[A-Za-z0-9_:/-]|\.(?=[A-Za-z0-9]))*$/;
const schemaPattern = /^[a-z_][a-z0-9_]*$/;

/** Names of objects every JavaScript value has; as a job type they would be looked up by mistake. */
const reserved = new Set(Object.getOwnPropertyNames(Object.prototype));

const fits = (name: string, pattern: RegExp, max: number): boolean =>
  name.length <= max && pattern.test(name) && !reserved.has(name);

function check(what: string, name: string, pattern: RegExp, max: number, rule: string): string {
  if (typeof name !== "string" || !fits(name, pattern, max)) {
    const shown = typeof name === "string" ? JSON.stringify(name.slice(0, 80)) : typeof name;
    throw new NameError(`Cannot use ${shown} as ${what}: ${rule}, at most ${max} characters.`);
  }
  return name;
}

/** Checks a queue's or subscription's name: lower case letters, digits, `.`, `_`, `-`; at most 63. */
export function checkQueueName(name: string): string {
  if (typeof name === "string" && name.endsWith(".dlq")) {
    throw new NameError(
      `Cannot use ${JSON.stringify(name.slice(0, 80))} as a queue name: the ending ".dlq" is kept for dead-letter queues.`,
    );
  }
  return check(
    "a queue name",
    name,
    queuePattern,
    63,
    "lower case letters, digits, '.', '_' and '-', a letter or digit first, no dot at the end",
  );
}

/** Checks a job's or event's name: letters, digits, `.`, `_`, `-`, `:`, `/`; at most 128. */
export function checkTypeName(name: string): string {
  return check(
    "a job or event name",
    name,
    typePattern,
    128,
    "letters, digits, '.', '_', '-', ':' and '/', a letter or digit first, no dot at the end",
  );
}

/** Says whether {@link checkTypeName} accepts it. */
export function isTypeName(name: unknown): boolean {
  return typeof name === "string" && fits(name, typePattern, 128);
}

/** Checks a PostgreSQL schema's name: lower case letters, digits, `_`; at most 40. */
export function checkSchemaName(name: string): string {
  if (typeof name === "string" && name.startsWith("pg_")) {
    throw new NameError(
      `Cannot use ${JSON.stringify(name.slice(0, 80))} as a schema name: PostgreSQL keeps names that start with "pg_" for itself.`,
    );
  }
  return check(
    "a schema name",
    name,
    schemaPattern,
    40,
    "lower case letters, digits and '_', no digit first",
  );
}

/** Checks the prefix of exchange and queue names at the broker; at most 40. */
export function checkTopologyPrefix(name: string): string {
  if (typeof name === "string" && /^amq(?:\.|$)/.test(name)) {
    throw new NameError(
      `Cannot use ${JSON.stringify(name.slice(0, 80))} as a topology prefix: RabbitMQ keeps names that start with "amq." for itself.`,
    );
  }
  return check("a topology prefix", name, queuePattern, 40, "the rules of a queue name");
}

/** Length of a text in UTF-8 bytes, without encoding it. */
export function utf8Bytes(text: string): number {
  return Buffer.byteLength(text, "utf8");
}

/** Checks an ordering or idempotency key: 1 to 255 bytes of UTF-8, no control characters. */
export function checkKey(what: string, key: string): string {
  if (
    typeof key !== "string" ||
    key === "" ||
    utf8Bytes(key) > 255 ||
    /[\u0000-\u001f\u007f]/.test(key) ||
    !key.isWellFormed()
  ) {
    throw new NameError(
      `Cannot use this ${what}: it must be 1 to 255 bytes of text without control characters.`,
    );
  }
  return key;
}
