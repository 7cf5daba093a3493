/**
 * Errors on their way between threads. Structured clone keeps name, message and stack only; what
 * decides about the next attempt (code, failure class, delay, the mark of Waybill's own errors, the
 * causes) would be lost.
 */

import { types } from "node:util";
import {
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  NonRetryableError,
  PayloadError,
  RetryAfterError,
  ShutdownError,
  WaybillError,
} from "@waybill/core";

/** Deepest chain of causes; failureOf reads four. */
const depthMax = 5;
/** Longest texts, in UTF-16 units; more than failureOf keeps. */
const lengths = { name: 500, message: 16_384, stack: 32_768 } as const;
/** Texts and numbers that Waybill's errors carry, besides name, message and stack. */
const members = ["code", "failureClass", "delayMs", "jobName", "jobId"] as const;

const brand = Symbol.for("waybill.error");

type Primitive = string | number | bigint | boolean | null | undefined;

/** Anything that can be thrown, as structured clone keeps it. */
export type ErrorWire = { readonly kind: "primitive"; readonly value: Primitive } | ObjectWire;

interface ObjectWire {
  readonly kind: "object";
  readonly isError: boolean;
  readonly isWaybill: boolean;
  readonly texts: Readonly<Record<string, string>>;
  readonly members: Readonly<Record<string, string | number>>;
  readonly issues: readonly { readonly path: string; readonly message: string }[] | undefined;
  readonly cause: ErrorWire | undefined;
  /** Of an AggregateError. */
  readonly errors: readonly ErrorWire[] | undefined;
}

const prototypes = new Map<string, object>([
  ...[Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map(
    (type) => [type.name, type.prototype] as const,
  ),
  ...[
    JobCancelledError,
    JobTimeoutError,
    LeaseLostError,
    NonRetryableError,
    PayloadError,
    RetryAfterError,
    ShutdownError,
  ].map((type) => [`waybill:${type.name}`, type.prototype] as const),
]);

/** A property of anything; undefined also where a getter or proxy throws. */
function read(value: object, key: string): unknown {
  try {
    return (value as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

function isWaybill(value: object): boolean {
  try {
    return WaybillError.is(value);
  } catch {
    return false;
  }
}

function isError(value: object): boolean {
  try {
    // DOMException, which fetch throws, is none of V8's own errors.
    return types.isNativeError(value) || value instanceof Error;
  } catch {
    return false;
  }
}

/** Makes of anything thrown what can be sent. Never throws. */
export function packError(thrown: unknown, depth = 0): ErrorWire {
  switch (typeof thrown) {
    case "object":
      return thrown === null ? { kind: "primitive", value: null } : packObject(thrown, depth);
    case "function":
    case "symbol":
      return packObject(
        new TypeError(`The handler threw a value that is no Error: ${typeof thrown}`),
        depth,
      );
    case "string":
      return { kind: "primitive", value: thrown.slice(0, lengths.message) };
    default:
      return { kind: "primitive", value: thrown as Primitive };
  }
}

function packObject(value: object, depth: number): ObjectWire {
  const texts: Record<string, string> = {};
  for (const [key, length] of Object.entries(lengths)) {
    const text = read(value, key);
    if (typeof text === "string") texts[key] = text.slice(0, length);
  }
  const kept: Record<string, string | number> = {};
  for (const key of members) {
    const member = read(value, key);
    if (typeof member === "string") kept[key] = member.slice(0, lengths.name);
    else if (typeof member === "number") kept[key] = member;
  }
  const cause = read(value, "cause");
  const errors = read(value, "errors");
  const deeper = depth < depthMax;
  return {
    kind: "object",
    isError: isError(value),
    isWaybill: isWaybill(value),
    texts,
    members: kept,
    issues: packIssues(read(value, "issues")),
    cause: cause === undefined || !deeper ? undefined : packError(cause, depth + 1),
    errors:
      Array.isArray(errors) && deeper
        ? errors.slice(0, 10).map((each: unknown) => packError(each, depth + 1))
        : undefined,
  };
}

function packIssues(issues: unknown): ObjectWire["issues"] {
  if (!Array.isArray(issues)) return undefined;
  return issues.slice(0, 20).map((issue: unknown) => ({
    path: textOf(issue, "path"),
    message: textOf(issue, "message"),
  }));
}

function textOf(issue: unknown, key: string): string {
  const found = typeof issue === "object" && issue !== null ? read(issue, key) : undefined;
  return typeof found === "string" ? found.slice(0, lengths.name) : "";
}

/** The other way round: an error of the same class where it is Waybill's or JavaScript's own. */
export function unpackError(wire: ErrorWire): unknown {
  if (wire.kind === "primitive") return wire.value;
  const { texts, isError: asError } = wire;
  const target: object = asError ? new Error() : {};
  if (asError) {
    const name = texts["name"] ?? "Error";
    const prototype = prototypes.get(wire.isWaybill ? `waybill:${name}` : name);
    if (prototype !== undefined) Object.setPrototypeOf(target, prototype);
  }
  const define = (key: string | symbol, value: unknown, enumerable: boolean): void => {
    Object.defineProperty(target, key, { value, enumerable, writable: true, configurable: true });
  };
  // Not assigned: a stack of this thread would say nothing about the error.
  for (const key of Object.keys(lengths)) define(key, texts[key], !asError);
  for (const [key, value] of Object.entries(wire.members)) define(key, value, true);
  if (wire.isWaybill) define(brand, true, false);
  if (wire.issues !== undefined) define("issues", wire.issues, true);
  if (wire.cause !== undefined) define("cause", unpackError(wire.cause), false);
  if (wire.errors !== undefined) define("errors", wire.errors.map(unpackError), false);
  return target;
}
