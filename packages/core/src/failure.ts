/**
 * What a failed attempt means: which class of failure it is, and what follows from the class.
 * Pure: time and chance come in as arguments.
 */

import { createHash } from "node:crypto";
import { backoffDelayMs, type ResolvedRetryPolicy } from "./backoff.ts";
import { type FailureClass, failureClasses, WaybillError } from "./errors.ts";
import { cleanText } from "./text.ts";

/** Longest stored message, in UTF-16 units. */
export const failureMessageLength = 2_048;
/** Longest stored stack, in UTF-16 units. */
export const failureStackLength = 8_192;
/** Longest delay that a Retry-After is honoured for, in milliseconds: 7 days. */
export const retryAfterMaxMs = 604_800_000;

/** A failed attempt as it is stored: cleaned and cut. */
export interface Failure {
  readonly failureClass: FailureClass;
  readonly message: string;
  readonly stack: string | undefined;
  /** Equal for failures of the same kind. */
  readonly fingerprint: string;
  /** Earliest next attempt that the handler asked for, in milliseconds from now. */
  readonly retryAfterMs: number | undefined;
  /** What the handler wants to wait for so long besides the job itself. */
  readonly closes: "key" | "queue" | undefined;
  /** False where trying again cannot help. */
  readonly retryable: boolean;
}

/** What a class of failure means for the next attempt. */
export interface FailurePolicy {
  /** False: the job is dead-lettered at once. */
  readonly retryable: boolean;
  /** True: it counts against `maxAttempts`. */
  readonly spendsAttempt: boolean;
}

/** The policy of each class. */
export const failurePolicies: Readonly<Record<FailureClass, FailurePolicy>> = {
  transient: { retryable: true, spendsAttempt: true },
  rate_limited: { retryable: true, spendsAttempt: true },
  validation: { retryable: false, spendsAttempt: true },
  permission: { retryable: false, spendsAttempt: true },
  partial_progress: { retryable: true, spendsAttempt: true },
  timeout: { retryable: true, spendsAttempt: true },
  unknown: { retryable: true, spendsAttempt: true },
  crashed: { retryable: false, spendsAttempt: false },
  expired: { retryable: false, spendsAttempt: false },
  no_handler: { retryable: false, spendsAttempt: false },
  undecodable: { retryable: false, spendsAttempt: false },
  unauthentic: { retryable: false, spendsAttempt: false },
};

const transientCodes = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_CONNECT_TIMEOUT",
  // PostgreSQL: serialization failure, deadlock, lock not available, shutdowns, too many connections.
  "40001",
  "40P01",
  "55P03",
  "57P01",
  "57P02",
  "57P03",
  "53300",
  "25006",
]);

const timeoutCodes = new Set([
  "ETIMEDOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
  // PostgreSQL: query cancelled (statement_timeout).
  "57014",
]);

/** A property of anything; undefined where there is none, or where a getter or proxy throws. */
function memberOf(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  try {
    return (value as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

function textOf(value: unknown, key: string): string | undefined {
  const found = memberOf(value, key);
  return typeof found === "string" ? found : undefined;
}

/** {@link WaybillError.is}, also for proxies that throw. */
function isWaybillError(error: unknown): error is WaybillError {
  try {
    return WaybillError.is(error);
  } catch {
    return false;
  }
}

/** The class that an error states; another version of this package may state one unknown here. */
function statedClass(error: unknown): FailureClass {
  const stated = memberOf(error, "failureClass");
  return failureClasses.find((known) => known === stated) ?? "validation";
}

function classOf(error: unknown, depth = 0): FailureClass {
  if (isWaybillError(error)) {
    switch (memberOf(error, "code")) {
      case "WAYBILL_NON_RETRYABLE":
        return statedClass(error);
      case "WAYBILL_RETRY_AFTER":
        return "rate_limited";
      case "WAYBILL_PAYLOAD_INVALID":
      case "WAYBILL_HEADERS_INVALID":
      case "WAYBILL_NAME_INVALID":
        return "validation";
      case "WAYBILL_JOB_TIMEOUT":
        return "timeout";
      case "WAYBILL_DATABASE_UNAVAILABLE":
      case "WAYBILL_BROKER_UNAVAILABLE":
        return "transient";
      default:
        return "unknown";
    }
  }
  const code = textOf(error, "code");
  if (code !== undefined && transientCodes.has(code)) return "transient";
  if (code !== undefined && timeoutCodes.has(code)) return "timeout";
  if (textOf(error, "name") === "TimeoutError") return "timeout";
  // fetch and drivers of ORMs wrap the error that tells.
  const cause = memberOf(error, "cause");
  return cause === undefined || depth >= 4 ? "unknown" : classOf(cause, depth + 1);
}

/** One text for whatever was thrown: handlers throw strings, null and objects too. */
function messageOf(error: unknown): string {
  const message = textOf(error, "message");
  if (message !== undefined && message !== "") return message;
  if (typeof error === "string" && error !== "") return error;
  // Node's attempts at several addresses of a host end in an AggregateError without a message.
  const errors = memberOf(error, "errors");
  if (Array.isArray(errors)) {
    const parts = errors.slice(0, 3).map((each) => textOf(each, "message") ?? "");
    const joined = parts.filter((part) => part !== "").join("; ");
    if (joined !== "") return joined;
  }
  const name = textOf(error, "name");
  if (name !== undefined && name !== "") return name;
  return `The handler threw a value that is no Error: ${error === null ? "null" : typeof error}`;
}

/** Stack and cause in one text; each is cut before they are joined, since both may be huge. */
function stackOf(error: unknown): string | undefined {
  const stack = textOf(error, "stack");
  if (stack === undefined) return undefined;
  const cause = memberOf(error, "cause");
  const causeText =
    cause === undefined ? "" : `\nCaused by: ${textOf(cause, "stack") ?? messageOf(cause)}`;
  const most = failureStackLength;
  // The frames nearest to the failure come first; half of the room is kept for the cause.
  const own = causeText === "" ? stack.slice(0, most * 2) : stack.slice(0, most / 2);
  return cleanText(own + causeText.slice(0, most), most);
}

/** Groups failures: class, error name and message without the parts that differ from job to job. */
function fingerprintOf(failureClass: FailureClass, error: unknown, message: string): string {
  const shape = message
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, "#")
    .replace(/0x[0-9a-f]+/gi, "#")
    .replace(/\d+/g, "#")
    .slice(0, 300);
  return createHash("sha256")
    .update(
      `${failureClass}\n${(textOf(error, "name") ?? "").slice(0, 200)}\n${(textOf(error, "code") ?? "").slice(0, 200)}\n${shape}`,
    )
    .digest("hex")
    .slice(0, 16);
}

/** Makes of anything a handler throws what is stored about it. Never throws. */
export function failureOf(error: unknown): Failure {
  try {
    return readFailure(error);
  } catch {
    return statedFailure("unknown", "The handler threw a value that cannot be read.");
  }
}

function readFailure(error: unknown): Failure {
  const failureClass = classOf(error);
  const message = cleanText(messageOf(error), failureMessageLength);
  const waybill = isWaybillError(error) ? textOf(error, "code") : undefined;
  const delayMs = memberOf(error, "delayMs");
  const closes = memberOf(error, "closes");
  const retryAfter =
    waybill === "WAYBILL_RETRY_AFTER" && typeof delayMs === "number" && delayMs >= 0
      ? Math.min(retryAfterMaxMs, delayMs)
      : undefined;
  return {
    failureClass,
    message,
    stack: stackOf(error),
    fingerprint: fingerprintOf(failureClass, error, message),
    retryAfterMs: retryAfter,
    closes:
      retryAfter === undefined || (closes !== "key" && closes !== "queue") ? undefined : closes,
    retryable: waybill !== "WAYBILL_NON_RETRYABLE" && failurePolicies[failureClass].retryable,
  };
}

/** A failure that Waybill itself states, without an error object. */
export function statedFailure(failureClass: FailureClass, message: string): Failure {
  const clean = cleanText(message, failureMessageLength);
  return {
    failureClass,
    message: clean,
    stack: undefined,
    fingerprint: fingerprintOf(failureClass, undefined, clean),
    retryAfterMs: undefined,
    closes: undefined,
    retryable: failurePolicies[failureClass].retryable,
  };
}

/** What follows a failed attempt. */
export type FailureDecision =
  | { readonly next: "retry"; readonly delayMs: number }
  | { readonly next: "dead_letter" };

/** Decides what follows a failed attempt. `attempt` is the one that failed, 1 = the first. */
export function decideFailure(
  failure: Failure,
  attempt: number,
  policy: ResolvedRetryPolicy,
  random: () => number,
): FailureDecision {
  if (!failure.retryable || attempt >= policy.maxAttempts) return { next: "dead_letter" };
  const backoff = backoffDelayMs(policy, attempt, random);
  // A Retry-After is a lower bound; jitter on top keeps many jobs from coming back at one instant.
  const delayMs =
    failure.retryAfterMs === undefined
      ? backoff
      : failure.retryAfterMs + Math.floor(random() * Math.min(1_000, failure.retryAfterMs / 4));
  return { next: "retry", delayMs };
}
