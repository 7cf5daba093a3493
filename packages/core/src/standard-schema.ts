/**
 * The part of the Standard Schema interface (version 1) that Waybill uses. Any library that
 * implements it (zod, valibot, arktype, …) describes payloads; zod is the documented default.
 *
 * @see https://standardschema.dev
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (
      value: unknown,
    ) => StandardSchemaResult<Output> | Promise<StandardSchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** What {@link StandardSchema} answers: the value, or what is wrong with it. */
export type StandardSchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardSchemaIssue[] };

/** One thing that is wrong with a value. */
export interface StandardSchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The type that a caller passes to a schema. */
export type InputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"];

/** The type that a schema gives back. */
export type OutputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

/** One problem of a value: where, and what. Never the value itself, which may be a secret. */
export interface ValueIssue {
  /** Dotted path inside the value; empty for the value itself. */
  readonly path: string;
  readonly message: string;
}

const keyOf = (part: PropertyKey | { readonly key: PropertyKey }): string =>
  String(typeof part === "object" ? part.key : part);

/** Runs a schema; the answer is the value or the issues, never a throw for a bad value. */
export async function validateValue<S extends StandardSchema>(
  schema: S,
  value: unknown,
): Promise<
  { readonly value: OutputOf<S>; readonly issues?: undefined } | { readonly issues: ValueIssue[] }
> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return { value: result.value as OutputOf<S> };
  return {
    issues: result.issues.map((issue) => ({
      path: (issue.path ?? []).map(keyOf).join("."),
      message: issue.message,
    })),
  };
}
