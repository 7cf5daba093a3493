import type { z } from "zod";
import { ConfigError } from "./errors.ts";

/**
 * Parses the options of `subject` (for example `createRelay`) with a strict schema.
 *
 * @returns the options with their defaults, frozen
 * @throws ConfigError that names every problem at once
 */
export function parseOptions<Output, Input>(
  subject: string,
  schema: z.ZodType<Output, Input>,
  options: Input,
): Readonly<Output> {
  const result = schema.safeParse(options);
  if (result.success) return Object.freeze(result.data);
  throw new ConfigError(
    subject,
    result.error.issues.map((issue) => ({
      path: issue.path.map(String).join("."),
      message: issue.message,
    })),
  );
}
