/**
 * The guard at both ends of a payload: only JSON goes in, and only what a worker can safely parse
 * comes out. Every limit is explicit; a value is checked before it is turned into text, because
 * JSON.stringify drops, converts or overflows on much of what is refused here.
 */

import type { ValueIssue } from "./standard-schema.ts";

/** Default limit of a payload's text, in UTF-8 bytes: 256 KiB. */
export const payloadBytesDefault = 262_144;
/** Largest limit that can be set, in bytes: 8 MiB, half of what RabbitMQ 4 accepts as a message. */
export const payloadBytesMax = 8_388_608;
/** Deepest nesting of arrays and objects. */
export const payloadDepthMax = 64;
/** Most keys of one object. */
export const payloadKeysMax = 10_000;
/** Most problems that one payload reports. */
const issuesMax = 20;

/** A payload as text, or what is wrong with it. */
export type PayloadResult<T> =
  | ({ readonly issues?: undefined } & T)
  | { readonly issues: readonly ValueIssue[] };

interface Walk {
  readonly issues: ValueIssue[];
  /** Values that may still be visited: one that is shared many times over never ends otherwise. */
  budget: number;
  readonly ancestors: Set<object>;
}

function textIssue(text: string): string | undefined {
  if (text.includes("\u0000"))
    return "holds a NUL character, which PostgreSQL cannot store; remove it";
  if (!text.isWellFormed())
    return "holds a lone surrogate, which is no valid text; use toWellFormed()";
  return undefined;
}

function report(walk: Walk, path: string, message: string): void {
  if (walk.issues.length < issuesMax) walk.issues.push({ path, message });
}

function describeObject(value: object): string | undefined {
  if (value instanceof Date) return "is a Date, which is not JSON; pass value.toISOString()";
  if (value instanceof Map || value instanceof Set)
    return "is a Map or Set, which is not JSON; pass an array or object";
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer)
    return "is binary, which is not JSON; pass it as base64";
  if (value instanceof Promise) return "is a Promise; await it";
  const prototype: unknown = Object.getPrototypeOf(value);
  // Plain objects of another realm (vm contexts, as test runners use them) are plain too: what
  // their prototype inherits from is null.
  const plain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!plain && !Array.isArray(value)) {
    return "is an instance of a class, which is not JSON; pass a plain object";
  }
  return undefined;
}

const isFull = (walk: Walk): boolean => walk.budget < 0 || walk.issues.length >= issuesMax;

function walkValue(walk: Walk, value: unknown, path: string, depth: number): void {
  walk.budget -= 1;
  if (isFull(walk)) return;
  switch (typeof value) {
    case "string": {
      const issue = textIssue(value);
      if (issue !== undefined) report(walk, path, issue);
      return;
    }
    case "number":
      if (!Number.isFinite(value))
        report(walk, path, `is ${value}, which is not JSON; use null or a text`);
      return;
    case "boolean":
      return;
    case "bigint":
      return report(walk, path, "is a BigInt, which is not JSON; pass it as a text");
    case "undefined":
      return report(walk, path, "is undefined, which is not JSON; leave the key out or use null");
    case "function":
    case "symbol":
      return report(walk, path, `is a ${typeof value}, which is not JSON`);
    case "object":
      if (value !== null) walkObject(walk, value, path, depth);
  }
}

/** The other way to Object.prototype, for code that merges objects carelessly. */
function isPrototypeTrap(key: string, value: unknown): boolean {
  return (
    key === "constructor" &&
    typeof value === "object" &&
    value !== null &&
    Object.hasOwn(value, "prototype")
  );
}

function walkObject(walk: Walk, value: object, path: string, depth: number): void {
  if (depth >= payloadDepthMax)
    return report(walk, path, `is nested deeper than ${payloadDepthMax} levels`);
  if (walk.ancestors.has(value))
    return report(walk, path, "refers back to itself (a cycle), which is not JSON");
  const problem = describeObject(value);
  if (problem !== undefined) return report(walk, path, problem);
  if ("toJSON" in value && typeof value.toJSON === "function") {
    return report(walk, path, "has a toJSON method; call it and pass what it gives");
  }
  walk.ancestors.add(value);
  if (Array.isArray(value)) {
    // An index loop sees the holes of a sparse array, which forEach would not.
    for (let n = 0; n < value.length && !isFull(walk); n += 1)
      walkValue(walk, value[n], join(path, String(n)), depth + 1);
  } else {
    const entries = Object.entries(value);
    if (entries.length > payloadKeysMax)
      report(walk, path, `has ${entries.length} keys, the limit is ${payloadKeysMax}`);
    for (const [key, item] of entries) {
      if (isFull(walk)) break;
      const issue = textIssue(key);
      if (issue !== undefined) report(walk, path, `has a key that ${issue}`);
      else if (key === "__proto__") report(walk, path, 'has the key "__proto__", which is refused');
      else if (isPrototypeTrap(key, item))
        report(walk, path, 'has the key "constructor" with a "prototype" in it, which is refused');
      // A key that is undefined is left out by JSON.stringify, as optional fields are meant to be.
      else if (item !== undefined) walkValue(walk, item, join(path, key), depth + 1);
    }
  }
  walk.ancestors.delete(value);
}

const join = (path: string, key: string): string =>
  path === "" ? key.slice(0, 80) : `${path.slice(0, 200)}.${key.slice(0, 80)}`;

const refused = (message: string): PayloadResult<never> => ({ issues: [{ path: "", message }] });

const tooLarge = (bytes: string, maxBytes: number): string =>
  `is ${bytes} bytes of JSON, the limit is ${maxBytes}; store the data and pass a reference`;

/**
 * Turns a payload into JSON text.
 *
 * @param maxBytes limit of the text in UTF-8 bytes
 * @returns the text, or every problem with its path; never the values themselves
 */
export function encodePayload(
  value: unknown,
  maxBytes: number,
): PayloadResult<{ readonly text: string }> {
  const walk: Walk = { issues: [], budget: maxBytes, ancestors: new Set() };
  let text: string;
  try {
    walkValue(walk, value, "", 0);
    if (walk.issues.length > 0) return { issues: walk.issues };
    // Each value takes a byte at least.
    if (walk.budget < 0) return refused(tooLarge(`more than ${maxBytes}`, maxBytes));
    text = JSON.stringify(value);
  } catch {
    return refused("cannot be read: a getter or proxy in it threw");
  }
  const bytes = Buffer.byteLength(text, "utf8");
  return bytes <= maxBytes ? { text } : refused(tooLarge(String(bytes), maxBytes));
}

/** Deepest nesting of a JSON text, read from its characters: parsing proves nothing about depth. */
export function jsonDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let n = 0; n < text.length; n += 1) {
    const c = text.charCodeAt(n);
    if (inString) {
      if (c === 0x5c) n += 1;
      else if (c === 0x22) inString = false;
    } else if (c === 0x22) inString = true;
    else if (c === 0x5b || c === 0x7b) deepest = Math.max(deepest, (depth += 1));
    else if (c === 0x5d || c === 0x7d) depth -= 1;
  }
  return deepest;
}

/** Takes the ways to a prototype out; false where an object has too many keys. */
function dropProto(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value)) return value.every(dropProto);
  const record = value as Record<string, unknown>;
  // JSON.parse makes "__proto__" an own key; Object.assign on it would then set the prototype.
  if (Object.hasOwn(record, "__proto__")) delete record["__proto__"];
  if (Object.hasOwn(record, "constructor") && isPrototypeTrap("constructor", record["constructor"]))
    delete record["constructor"];
  const items = Object.values(record);
  return items.length <= payloadKeysMax && items.every(dropProto);
}

/**
 * Parses a payload that came from the broker.
 *
 * @returns the value, without `__proto__` and `constructor.prototype`, or why it cannot be read
 */
export function decodePayload(
  text: string,
  maxBytes: number,
): PayloadResult<{ readonly value: unknown }> {
  if (Buffer.byteLength(text, "utf8") > maxBytes)
    return refused(`is larger than ${maxBytes} bytes`);
  if (jsonDepth(text) > payloadDepthMax)
    return refused(`is nested deeper than ${payloadDepthMax} levels`);
  try {
    const value: unknown = JSON.parse(text);
    // The shortest text with too many keys is longer than most payloads.
    const suspect =
      text.length > payloadKeysMax * 5 ||
      text.includes("__proto__") ||
      text.includes("prototype") ||
      text.includes("\\u");
    return suspect && !dropProto(value)
      ? refused(`has an object with more than ${payloadKeysMax} keys`)
      : { value };
  } catch {
    // The parser's own message quotes the text, which may hold secrets.
    return refused(text.trim() === "" ? "is empty" : "is not JSON");
  }
}
