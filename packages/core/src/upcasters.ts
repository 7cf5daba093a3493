/** Steps that make payloads of earlier versions ones of a definition's own version. */

import { z } from "zod";

/** Makes a payload of one version one of the next; what it is given was parsed and not validated. */
export type Upcaster = (payload: unknown) => unknown;

/** Steps as a definition states them, by the version that they begin with. */
export type UpcasterSteps = Readonly<Record<number, Upcaster>>;

/** As {@link UpcasterSteps}; a map, since versions to look up come from messages. */
export const upcasterSteps: z.ZodType<ReadonlyMap<number, Upcaster>, UpcasterSteps> = z
  .custom<UpcasterSteps>(
    (value) =>
      typeof value === "object" &&
      value !== null &&
      !Array.isArray(value) &&
      Object.values(value).every((step) => typeof step === "function"),
    { message: "expected an object of functions, such as { 1: (v1) => v2 }" },
  )
  .transform((given) => new Map(Object.entries(given).map(([from, step]) => [Number(from), step])));

/**
 * What is wrong with the steps of a definition of this version; undefined: nothing.
 *
 * @param keys versions that the steps begin with, as they were given
 */
export function upcasterProblem(keys: readonly string[], version: number): string | undefined {
  const problems: string[] = [];
  const froms = new Set<number>();
  for (const key of keys) {
    const from = Number(key);
    if (Number.isInteger(from) && from >= 1 && from < version) froms.add(from);
    else
      problems.push(
        `the step from version ${key.slice(0, 20)} does not lead to version ${version}`,
      );
  }
  for (let from = Math.min(version, ...froms); from < version; from += 1) {
    if (!froms.has(from)) problems.push(`the step from version ${from} to ${from + 1} is missing`);
  }
  return problems.length === 0 ? undefined : problems.slice(0, 10).join("; ");
}
