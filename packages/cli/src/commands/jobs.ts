import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { jobStates, WaybillError } from "@waybill/core";
import type { JobPage, JobRecord, Jobs, JobSummary } from "@waybill/postgres";
import type { Client } from "pg";
import { actOnEach, reportActs } from "../acts.ts";
import type { Program } from "../command.ts";
import { confirm } from "../confirm.ts";
import { exitCodes } from "../exit-codes.ts";
import { cancelWords, failureWords, instant, progressWords, waiting } from "../job-words.ts";
import { withJobs } from "../jobs-connection.ts";
import type { Output, Paint } from "../output.ts";
import { shown } from "../output.ts";
import { parseLimit } from "../page-limit.ts";
import { addJobsChanges } from "./jobs-changes.ts";
import { addJobsErase } from "./jobs-erase.ts";
import { addJobsExplain } from "./jobs-explain.ts";
import { addJobsWatch } from "./jobs-watch.ts";

const paints: Readonly<Record<JobSummary["state"], Paint>> = {
  queued: "faint",
  running: "warning",
  retry_waiting: "warning",
  succeeded: "good",
  failed: "bad",
  cancelled: "faint",
};

/** Progress of a job that has not ended; of others it says nothing any more. */
const going = (job: JobSummary): string =>
  job.state === "running" || job.state === "retry_waiting" ? progressWords(job.progress) : "";

function printPage(output: Output, page: JobPage): void {
  if (output.json) return output.object(page);
  const progress = page.jobs.some((job) => going(job) !== "");
  output.table(
    ["id", "queue", "type", "state", "attempt"].concat(progress ? ["progress"] : [], [
      "enqueued",
      "waiting for",
      "failure",
    ]),
    page.jobs.map((job) => [
      job.id,
      job.queue,
      job.type,
      output.paint(paints[job.state], job.stale ? `${job.state} (stale)` : job.state),
      String(job.attempt),
      ...(progress ? [shown(going(job))] : []),
      instant(job.enqueuedAt),
      waiting(job),
      shown(failureWords(job, 60)),
    ]),
  );
  if (page.nextCursor !== null) output.note(`More: --cursor ${page.nextCursor}`);
}

function checkpointWords({ checkpoint }: JobRecord): string {
  if (checkpoint === null) return "";
  const { number, attempt, createdAt } = checkpoint;
  return `${checkpoint.checkpoint} (number ${number}, by attempt ${attempt}, ${instant(createdAt)})`;
}

/** The lines of `jobs show`: what there is to say, nothing empty. */
function linesOf(job: JobRecord): readonly (readonly [string, string])[] {
  const known: readonly (readonly [string, string | null])[] = [
    ["id", job.id],
    ["type", job.version === 1 ? job.type : `${job.type} (version ${job.version})`],
    ["queue", job.queue],
    ["state", job.state],
    ["relayed", job.relayed ? "yes" : "no"],
    ["waits for", waiting(job)],
    ["detail", job.waitingDetail],
    ["attempt", String(job.attempt)],
    ["crashes", job.crashes === 0 ? null : String(job.crashes)],
    ["deaths", job.deaths === 0 ? null : String(job.deaths)],
    ["worker", job.worker ?? job.owner],
    ["stale", job.stale ? "its worker's heartbeat has stopped, another one will take over" : null],
    ["progress", progressWords(job.progress)],
    ["reported", instant(job.progress?.reportedAt ?? null)],
    ["checkpoint", checkpointWords(job)],
    ["priority", job.priority === 0 ? null : String(job.priority)],
    ["ordering key", job.orderingKey],
    ["concurrency key", job.concurrencyKey],
    ["correlation id", job.correlationId],
    ["enqueued", instant(job.enqueuedAt)],
    ["started", instant(job.startedAt)],
    ["finished", instant(job.finishedAt)],
    ["cancel asked", instant(job.cancelRequestedAt)],
    [job.state === "cancelled" ? "cancelled by" : "asked by", cancelWords(job)],
    ["expires", instant(job.expiresAt)],
    ["event on end", job.onTerminal],
    ["headers", Object.keys(job.headers).length === 0 ? null : JSON.stringify(job.headers)],
    ["payload", job.payloadBase64 ? `(base64) ${job.payload ?? ""}` : job.payload],
    ["result", job.result],
  ];
  return known.flatMap(([name, value]) =>
    value === null || value === "" ? [] : [[name, value] as const],
  );
}

function printJob(output: Output, job: JobRecord): void {
  if (output.json) return output.object(job);
  for (const [name, value] of linesOf(job))
    output.line(`${output.paint("faint", name.padEnd(14))} ${shown(value)}`);
  for (const { attempt, failedAt, failureClass, message, stack, terminal } of job.failures) {
    output.line();
    output.line(
      `${output.paint("bad", `attempt ${attempt} failed`)} ${instant(failedAt)} ${failureClass}${terminal ? ", dead-lettered" : ""}`,
    );
    output.line(shown(stack ?? message));
  }
  for (const { at, action, actor, detail } of job.audit) {
    output.line(
      `${instant(at)} ${action} by ${shown(actor)}${detail === null ? "" : `: ${shown(detail)}`}`,
    );
  }
}

/** Retries a failed job, or lets go what waits for a time or is parked: whichever keeps it. */
async function retryOrRelease(
  jobs: Jobs<Client>,
  id: string,
  act: { readonly queue: string | undefined; readonly reason: string | undefined },
): Promise<string> {
  try {
    await jobs.retry(id, act);
    return "retried";
  } catch (error) {
    const kept =
      WaybillError.is(error) &&
      ["WAYBILL_INVALID_TRANSITION", "WAYBILL_JOB_NOT_FOUND"].includes(error.code);
    if (!kept) throw error;
    // Parked routes and events are no jobs, so they are not found as such.
    const released = await jobs.release(id, act).catch(() => 0);
    if (released === 0) throw error;
    return "released";
  }
}

function addList(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("list", { isDefault: true })
    .description("jobs, newest first")
    .addOption(new Option("--state <state>", "only this state").choices(jobStates))
    .option("--queue <name>", "only this queue or subscription")
    .option("--type <name>", "only this job or event name")
    .option(
      "--search <text>",
      "only jobs with this text in id, type, ordering key or correlation id",
    )
    .option("--limit <n>", "at most so many, 1 to 200", parseLimit(200), 50)
    .option("--cursor <text>", "go on where the page before ended")
    .action(async (options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { state, queue, type, search, limit, cursor } = options;
        const page = await withJobs(settings, (store) =>
          store.list({ state, queue, type, search, limit, cursor }),
        );
        printPage(output, page);
        return exitCodes.ok;
      });
    });
}

function addShow(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("show <id>")
    .description("one job with payload, failures and what was done to it")
    .option("--queue <name>", "which, where one id is known in several queues")
    .action(async (id, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        printJob(
          output,
          await withJobs(settings, (store) => store.get(id, { queue: options.queue })),
        );
        return exitCodes.ok;
      });
    });
}

function addCancel(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("cancel <ids...>")
    .description("end jobs that wait, ask running ones to end")
    .option("--queue <name>", "which, where one id is known in several queues")
    .option("--reason <text>", "kept in the audit log")
    .option("--yes", "do not ask")
    .action(async (ids, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { queue, reason } = options;
        const question = `Cancel ${ids.length === 1 ? `job ${ids[0] ?? ""}` : `${ids.length} jobs`}?`;
        if (!(await confirm(question, options.yes === true))) return exitCodes.failure;
        const results = await withJobs(settings, (store) =>
          actOnEach(ids, async (id) => {
            const state = await store.cancel(id, { queue, reason });
            return state === "running" ? "asked to end" : "cancelled";
          }),
        );
        return reportActs(output, results);
      });
    });
}

function addRetry(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("retry <ids...>")
    .description("run failed jobs again, and let go at once what waits for a time or is parked")
    .option("--queue <name>", "which, where one id is known in several queues")
    .option("--reason <text>", "kept in the audit log")
    .action(async (ids, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { queue, reason } = options;
        const results = await withJobs(settings, (store) =>
          actOnEach(ids, (id) => retryOrRelease(store, id, { queue, reason })),
        );
        return reportActs(output, results);
      });
    });
}

/** `waybill jobs list|show|watch|cancel|retry|edit|priority|delay|explain|blocked|erase`. */
export function addJobsCommand(root: CommandUnknownOpts, program: Program): void {
  const jobs = root.command("jobs").description("look at jobs, change, cancel and retry them");
  addList(jobs, program);
  addShow(jobs, program);
  addJobsWatch(jobs, program);
  addCancel(jobs, program);
  addRetry(jobs, program);
  addJobsChanges(jobs, program);
  addJobsExplain(jobs, program);
  addJobsErase(jobs, program);
}
