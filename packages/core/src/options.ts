import type { z } from "zod";
import { ConfigError, type ConfigIssue } from "./errors.ts";

/**
 * Parses the options of `subject` (for example `createRelay`) with a strict schema.
 *
 * @param misfits finds what does not fit together in the options as they were given, whether or not
 *   each of them is right
 * @returns the options with their defaults, frozen
 * @throws ConfigError that names every problem at once
 */
export function parseOptions<Output, Input>(
  subject: string,
  schema: z.ZodType<Output, Input>,
  options: Input,
  misfits: (options: Input) => readonly ConfigIssue[] = () => [],
): Readonly<Output> {
  const result = schema.safeParse(options);
  const fit = misfits(options);
  if (result.success && fit.length === 0) return Object.freeze(result.data);
  const single = (result.error?.issues ?? []).map((issue) => ({
    path: issue.path.map(String).join("."),
    message: issue.message,
  }));
  throw new ConfigError(subject, [...single, ...fit]);
}
