import { PayloadError } from "./errors.ts";
import { encodePayload } from "./payload.ts";
import { type StandardSchema, validateValue, type ValueIssue } from "./standard-schema.ts";

/** The issues of a value that is itself part of something: their paths begin with its place there. */
export function issuesAt(place: string, issues: readonly ValueIssue[]): ValueIssue[] {
  return issues.map(({ path, message }) => ({
    path: place === "" || path === "" ? `${place}${path}` : `${place}.${path}`,
    message,
  }));
}

/**
 * The JSON text of a value that fits its schema and a limit.
 *
 * @param name of the job or event, for the error
 * @param place of the value, for the error; empty for the payload
 * @param bytesMax most that the text may be, in bytes of UTF-8
 * @throws PayloadError
 */
export async function valueText(
  name: string,
  place: string,
  schema: StandardSchema,
  value: unknown,
  bytesMax: number,
): Promise<string> {
  // Before the schema runs: it would overflow the stack on a deep value and hang on a cycle.
  const encoded = encodePayload(value, bytesMax);
  if (encoded.issues !== undefined) throw new PayloadError(name, issuesAt(place, encoded.issues));
  const valid = await validateValue(schema, value);
  if (valid.issues !== undefined) throw new PayloadError(name, issuesAt(place, valid.issues));
  return encoded.text;
}
