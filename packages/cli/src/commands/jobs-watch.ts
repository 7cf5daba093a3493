import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { JobSnapshot } from "@waybill/postgres";
import type { Program } from "../command.ts";
import { exitCodes } from "../exit-codes.ts";
import { cancelWords, failureWords, progressWords, waiting } from "../job-words.ts";
import { withWatchedJobs } from "../jobs-connection.ts";
import { shown } from "../output.ts";

/** What one state has to say beside its name. */
function details(job: JobSnapshot): readonly string[] {
  const attempt = `attempt ${job.attempt}`;
  switch (job.state) {
    case "queued":
      return [waiting(job)];
    case "running":
      return [
        attempt,
        progressWords(job.progress),
        job.cancelRequestedAt === null ? "" : `asked to end by ${cancelWords(job)}`,
        job.stale ? "stale: its worker's heartbeat has stopped" : "",
      ];
    case "retry_waiting":
      return [`after ${attempt}`, waiting(job), failureWords(job, 160)];
    case "succeeded":
      return [attempt];
    case "failed":
      return [attempt, failureWords(job, 160)];
    case "cancelled":
      return [`by ${cancelWords(job)}`];
  }
}

/** `waybill jobs watch`: a line for each change of a job, until it has ended. */
export function addJobsWatch(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("watch <id>")
    .description("a line for each change until the job ends; exit 1 unless it has succeeded")
    .option("--queue <name>", "which, where one id is known in several queues")
    .action(async (id, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output, logger }) =>
        withWatchedJobs(settings, logger, async (store) => {
          let succeeded = false;
          for await (const job of store.watch(id, { queue: options.queue })) {
            succeeded = job.state === "succeeded";
            if (output.json) output.object(job);
            else {
              const words = [job.state, ...details(job)].filter((part) => part !== "");
              output.line(`${new Date().toISOString()} ${shown(words.join(", "))}`);
            }
          }
          return succeeded ? exitCodes.ok : exitCodes.failure;
        }),
      );
    });
}
