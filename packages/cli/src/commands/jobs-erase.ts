/** `waybill jobs erase`: takes away what ended jobs hold. */

import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { ConfigError } from "@waybill/core";
import type { ErasableFilter, ErasableJob, Jobs } from "@waybill/postgres";
import type { Client } from "pg";
import { actOnEach, reportActs } from "../acts.ts";
import type { Program } from "../command.ts";
import { confirm } from "../confirm.ts";
import { parseTime } from "../duration.ts";
import { exitCodes } from "../exit-codes.ts";
import { withJobs } from "../jobs-connection.ts";
import { parseLimit } from "../page-limit.ts";

type Filter = Omit<ErasableFilter<Client>, "limit" | "cursor" | "tx">;

/** The jobs that match, one for each id, up to `max`; and whether there are more. */
async function collect(
  jobs: Jobs<Client>,
  filter: Filter,
  max: number,
): Promise<{ readonly found: readonly ErasableJob[]; readonly more: boolean }> {
  const found = new Map<string, ErasableJob>();
  for (let cursor: string | undefined; ;) {
    const page = await jobs.listErasable({ ...filter, limit: 200, cursor });
    for (const job of page.jobs) {
      if (found.size >= max && !found.has(job.id))
        return { found: [...found.values()], more: true };
      found.set(job.id, job);
    }
    if (page.nextCursor === null) return { found: [...found.values()], more: false };
    cursor = page.nextCursor;
  }
}

function question(jobs: readonly ErasableJob[]): string {
  const failed = jobs.filter(({ state }) => state === "failed").length;
  const lost = failed === 0 ? "" : ` ${failed} of them failed and cannot be retried any more.`;
  return `Erase what ${jobs.length} jobs hold?${lost}`;
}

/** Adds `waybill jobs erase`. */
export function addJobsErase(parent: CommandUnknownOpts, program: Program): void {
  parent
    .command("erase [ids...]")
    .description(
      "erase payloads, results and texts of jobs that have ended: those named, or all that match",
    )
    .option("--key <name>", "only jobs of this concurrency key, such as a tenant")
    .option("--correlation-id <text>", "only jobs with this correlation id")
    .option(
      "--older-than <time>",
      "only jobs that ended before so long, such as 30d",
      parseTime("12h or 30d"),
    )
    .option("--queue <name>", "only this queue or subscription")
    .option("--type <name>", "only this job or event name")
    .option("--max <n>", "at most so many in one run, 1 to 10000", parseLimit(10_000), 1_000)
    .option("--reason <text>", "kept in the audit log")
    .option("--dry-run", "list what would be erased; change nothing")
    .option("--yes", "do not ask")
    .action(async (ids, options, command) => {
      const { key, correlationId, olderThan, queue, type, reason } = options;
      const filter: Filter = {
        queue,
        type,
        concurrencyKey: key,
        correlationId,
        finishedBefore: olderThan === undefined ? undefined : new Date(Date.now() - olderThan),
      };
      const filtered = Object.values(filter).some((value) => value !== undefined);
      if (ids.length > 0 === filtered) {
        throw new ConfigError("the waybill command", [
          {
            path: "jobs erase",
            message:
              "name ids, or choose with --key, --correlation-id, --older-than, --queue or --type; not both",
          },
        ]);
      }
      await program.run(command, ["databaseUrl"], async ({ settings, output }) =>
        withJobs(settings, async (jobs) => {
          const { found, more } =
            ids.length > 0 ? { found: [], more: false } : await collect(jobs, filter, options.max);
          const wanted = ids.length > 0 ? ids : found.map(({ id }) => id);
          if (options.dryRun === true) {
            if (output.json)
              output.object({ dryRun: true, more, jobs: ids.length > 0 ? ids : found });
            else for (const id of wanted) output.line(id);
            output.note(`${wanted.length} jobs would be erased. Nothing was changed.`);
            return exitCodes.ok;
          }
          if (wanted.length === 0) {
            output.note("No job that has ended and was not erased yet matches.");
            return reportActs(output, []);
          }
          const asked =
            ids.length > 0
              ? `Erase what ${ids.length} jobs hold? Those that failed cannot be retried any more.`
              : question(found);
          if (!(await confirm(asked, options.yes === true))) return exitCodes.failure;
          const results = await actOnEach(wanted, async (id) => {
            await jobs.erase(id, { reason });
            return "erased";
          });
          if (more)
            output.note(`There are more than ${options.max}: run it again, or raise --max.`);
          if (results.some(({ ok }) => ok)) {
            output.note(
              "Messages in the broker's dead-letter queues are not reached: purge them there.",
            );
          }
          return reportActs(output, results);
        }),
      );
    });
}
