import { ConfigError, type ConfigIssue, isKeyRing, keyRingRule } from "@waybill/core";
import { isInstant } from "./enqueue-options.ts";

/** What one option must be: true, or the rule that it breaks. */
export type OptionRule = (value: unknown) => true | string;

/**
 * Checks the options of a factory: no unknown keys, every rule kept.
 *
 * @throws ConfigError that names every problem at once
 */
export function checkOptions(
  subject: string,
  options: unknown,
  rules: Readonly<Record<string, OptionRule>>,
): void {
  if (typeof options !== "object" || options === null) {
    throw new ConfigError(subject, [{ path: "", message: "must be an object" }]);
  }
  const issues: ConfigIssue[] = [];
  for (const path of Object.keys(options)) {
    if (!Object.hasOwn(rules, path)) issues.push({ path, message: "is not an option" });
  }
  for (const [path, rule] of Object.entries(rules)) {
    const verdict = rule((options as Readonly<Record<string, unknown>>)[path]);
    if (verdict !== true) issues.push({ path, message: verdict });
  }
  if (issues.length > 0) throw new ConfigError(subject, issues);
}

/** A {@link Database} is there. */
export const databaseRule: OptionRule = (value) =>
  (typeof value === "object" &&
    value !== null &&
    "executor" in value &&
    typeof value.executor === "function" &&
    "transaction" in value &&
    typeof value.transaction === "function") ||
  "must be a Database, as pgDatabase(pool) and its siblings make one";

/** Undefined, or what the rule allows. */
export const optional =
  (rule: OptionRule): OptionRule =>
  (value) =>
    value === undefined || rule(value);

/** An integer within bounds. */
export const integerRule =
  (min: number, max: number): OptionRule =>
  (value) =>
    (Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max) ||
    `must be an integer from ${min} to ${max}`;

/** A text of 1 to `max` characters, without control characters. */
export const textRule =
  (max: number): OptionRule =>
  (value) =>
    (typeof value === "string" &&
      value !== "" &&
      value.length <= max &&
      !/[\u0000-\u001f\u007f]/.test(value) &&
      value.isWellFormed()) ||
    `must be a text of 1 to ${max} characters without control characters`;

/** True or false. */
export const booleanRule: OptionRule = (value) =>
  typeof value === "boolean" || "must be true or false";

/** Dates that PostgreSQL takes. */
export const instantRule: OptionRule = (value) =>
  isInstant(value) || "must be a Date from 1970 to 9999";

/** Keys. */
export const keysRule: OptionRule = (value) => isKeyRing(value) || keyRingRule;

/** Whatever another place checks, or nothing has to. */
export const anything: OptionRule = () => true;

/** A job's definition. */
export const definitionRule: OptionRule = (value) =>
  (typeof value === "object" && value !== null && "name" in value && "payload" in value) ||
  "must be a job definition, as defineJob makes one";

/** Options of an act of an operator. */
export const actOptionRules: Readonly<Record<string, OptionRule>> = {
  reason: optional(textRule(1_000)),
  actor: optional(textRule(255)),
  tx: anything,
};

/** Options of an act on a job. */
export const actRules: Readonly<Record<string, OptionRule>> = {
  queue: optional(textRule(63)),
  ...actOptionRules,
};
