import { PayloadError, type ValueIssue } from "@waybill/core";
import type { Registration } from "./registry.ts";

type Steps = Pick<Registration<never>, "name" | "version" | "upcasters">;

function refusal(steps: Steps, from: number, why: string, options?: ErrorOptions): PayloadError {
  const issue: ValueIssue = {
    path: "",
    message:
      `the upcaster from version ${from} to ${from + 1} ${why}; correct it and redrive the job, ` +
      `whose payload is kept as it was enqueued`,
  };
  return new PayloadError(steps.name, [issue], options);
}

const isPromise = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  "then" in value &&
  typeof value.then === "function";

/**
 * Makes a parsed payload of an earlier version one of the version that the handler is for, step by
 * step. Its schema has not seen it yet.
 *
 * @param version of the payload; one that {@link Registry.find} found the handler for
 * @throws PayloadError that names the step that threw
 */
export function upcast(registration: Steps, version: number, payload: unknown): unknown {
  let value = payload;
  // Events have no versions.
  for (let from = version; from < (registration.version ?? version); from += 1) {
    const step = registration.upcasters.get(from);
    if (step === undefined) throw refusal(registration, from, "is missing");
    try {
      value = step(value);
    } catch (error) {
      const what = error instanceof Error ? error.message : `a ${typeof error}`;
      throw refusal(registration, from, `threw: ${what}`, { cause: error });
    }
    if (isPromise(value)) throw refusal(registration, from, "gave a promise, not a payload");
  }
  return value;
}
