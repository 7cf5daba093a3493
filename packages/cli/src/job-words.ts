/** What a job waits for, how far it is, and who ended it, in words for people. */

import type { JobProgress, JobSummary } from "@waybill/postgres";

/** An instant as the command shows it; nothing where it is not known. */
export const instant = (at: Date | null): string => at?.toISOString() ?? "";

/** What a job waits for, in a word and a time. */
export function waiting(
  job: Pick<JobSummary, "waitingFor" | "nextAt"> & Partial<Pick<JobSummary, "parked">>,
): string {
  if (job.waitingFor === null) return "";
  return `${job.waitingFor} ${job.parked === true ? "until released" : instant(job.nextAt)}`.trim();
}

/** How far it is: `import, 40 of 100 (40 %)`. */
export function progressWords(progress: JobProgress | null): string {
  if (progress === null) return "";
  const { stage, done, total, percent } = progress;
  const units = [
    ...(done === null ? [] : [String(done)]),
    ...(total === null ? [] : [`of ${total}`]),
    ...(percent === null ? [] : [`(${percent} %)`]),
  ].join(" ");
  return [stage, units].filter((part) => part !== null && part !== "").join(", ");
}

/** Who cancelled it, and why. */
export function cancelWords({
  cancelledBy,
  cancelReason,
}: Pick<JobSummary, "cancelledBy" | "cancelReason">): string {
  if (cancelledBy === null) return "";
  return cancelReason === null ? cancelledBy : `${cancelledBy}: ${cancelReason}`;
}

/** Its last failure in one line. */
export function failureWords(
  { failureClass, failureMessage }: Pick<JobSummary, "failureClass" | "failureMessage">,
  lengthMax: number,
): string {
  if (failureMessage === null) return "";
  const line = failureMessage.split("\n")[0]?.slice(0, lengthMax) ?? "";
  return `${failureClass ?? ""}: ${line}`;
}
