import { ShutdownError } from "@waybill/core";

/** Why a job is stopped when its worker ends. */
export function shutdownError(jobId: string): ShutdownError {
  return new ShutdownError(
    `Cannot go on with job ${jobId}: the worker shuts down. It is handed back and runs again.`,
  );
}
