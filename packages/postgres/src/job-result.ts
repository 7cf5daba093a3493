import {
  ConfigError,
  issuesAt,
  JobCancelledError,
  type JobDefinition,
  JobFailedError,
  PayloadError,
  PayloadUnavailableError,
  type StandardSchema,
  validateValue,
} from "@waybill/core";
import type { JobSnapshot } from "./job-snapshot.ts";

/**
 * Refuses a job of another definition: its values would be read by the wrong schema.
 *
 * @throws ConfigError of `subject`
 */
export function checkDefinition(
  subject: string,
  job: JobDefinition | undefined,
  found: { readonly id: string; readonly type: string },
): void {
  if (job === undefined || job.name === found.type) return;
  const message = `is the definition of "${job.name}", but job ${found.id} is "${found.type}"`;
  throw new ConfigError(subject, [{ path: "job", message }]);
}

/**
 * The result of a job that has ended.
 *
 * @throws JobFailedError, JobCancelledError where it has none; PayloadError where the definition's
 *   schema does not accept it, PayloadUnavailableError where it needs one and none is stored
 */
export async function resultOf(job: JobDefinition | undefined, end: JobSnapshot): Promise<unknown> {
  if (end.state === "failed") {
    const { failureClass, failureMessage } = end;
    throw new JobFailedError(end.id, failureClass ?? "unknown", failureMessage ?? "no message");
  }
  if (end.state === "cancelled") {
    const reason = end.cancelReason === null ? "without a reason" : `"${end.cancelReason}"`;
    throw new JobCancelledError(
      `Cannot give the result of job ${end.id}: it was cancelled by ${end.cancelledBy ?? "somebody"}, ${reason}. ` +
        `Enqueue the work again if it is still wanted.`,
    );
  }
  const value: unknown = end.result === null ? undefined : JSON.parse(end.result);
  const schema = job?.result as StandardSchema | undefined;
  if (job === undefined || schema === undefined) return value;
  const valid = await validateValue(schema, value);
  if (valid.issues === undefined) return valid.value;
  if (end.result === null) {
    throw new PayloadUnavailableError(
      `Cannot give the result of job ${end.id}: it has succeeded, and no result is stored. ` +
        `Either that is past its retention, or the worker's definition of "${job.name}" has no result.`,
    );
  }
  throw new PayloadError(job.name, issuesAt("(result)", valid.issues));
}

/** What a wait ends with that took longer than it may: a `TimeoutError`, as AbortSignal.timeout's. */
export function waitedTooLong(id: string, ms: number, last: JobSnapshot | undefined): DOMException {
  const fact =
    last === undefined
      ? "the database did not answer"
      : `it is ${last.state} (attempt ${last.attempt})`;
  return new DOMException(
    `Cannot give the result of job ${id} within ${ms} ms: ${fact}. The job goes on; ask for its result again.`,
    "TimeoutError",
  );
}
