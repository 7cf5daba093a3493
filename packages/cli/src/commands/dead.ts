import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { ConfigError, type FailureClass } from "@waybill/core";
import type { DeadLetterPage, DeadLetterRecord, Jobs } from "@waybill/postgres";
import type { Client } from "pg";
import { actOnEach, reportActs } from "../acts.ts";
import type { Program } from "../command.ts";
import { confirm } from "../confirm.ts";
import { exitCodes } from "../exit-codes.ts";
import { withJobs } from "../jobs-connection.ts";
import { type Output, shown } from "../output.ts";
import { parseLimit } from "../page-limit.ts";

interface Filter {
  readonly queue: string | undefined;
  readonly type: string | undefined;
  readonly failureClass: FailureClass | undefined;
  readonly fingerprint: string | undefined;
}

interface FilterFlags {
  readonly queue?: string | undefined;
  readonly type?: string | undefined;
  readonly class?: string | undefined;
  readonly fingerprint?: string | undefined;
}

const filterOf = (flags: FilterFlags): Filter => ({
  queue: flags.queue,
  type: flags.type,
  failureClass: flags.class as FailureClass | undefined,
  fingerprint: flags.fingerprint,
});

function withFilter<Usage extends string>(
  parent: CommandUnknownOpts,
  usage: Usage,
  description: string,
  isDefault = false,
) {
  return parent
    .command(usage, { isDefault })
    .description(description)
    .option("--queue <name>", "only this queue or subscription")
    .option("--type <name>", "only this job or event name")
    .option("--class <name>", "only this failure class: transient, validation, timeout, …")
    .option("--fingerprint <text>", "only failures of this kind, as the list shows it");
}

function printPage(output: Output, page: DeadLetterPage): void {
  if (output.json) return output.object(page);
  output.table(
    ["id", "queue", "type", "attempts", "died", "class", "fingerprint", "failure"],
    page.deadLetters.map((letter) => [
      letter.id,
      letter.queue,
      letter.type,
      String(letter.attempts),
      letter.diedAt.toISOString(),
      letter.failureClass,
      letter.fingerprint,
      shown(letter.message).split("\n")[0]?.slice(0, 80) ?? "",
    ]),
  );
  if (page.nextCursor !== null) output.note(`More: --cursor ${page.nextCursor}`);
}

/** All dead letters that match, up to `max`, and whether there are more. */
async function collect(
  jobs: Jobs<Client>,
  filter: Filter,
  max: number,
): Promise<{ readonly letters: readonly DeadLetterRecord[]; readonly more: boolean }> {
  const letters: DeadLetterRecord[] = [];
  for (let cursor: string | undefined; ;) {
    const limit = Math.min(200, max - letters.length);
    const page = await jobs.listDeadLetters({ ...filter, limit, cursor });
    letters.push(...page.deadLetters);
    if (page.nextCursor === null) return { letters, more: false };
    if (letters.length >= max) return { letters, more: true };
    cursor = page.nextCursor;
  }
}

function addList(dead: CommandUnknownOpts, program: Program): void {
  withFilter(dead, "list", "jobs that failed and can be retried, newest first", true)
    .option("--limit <n>", "at most so many, 1 to 200", parseLimit(200), 50)
    .option("--cursor <text>", "go on where the page before ended")
    .action(async (options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { limit, cursor } = options;
        const page = await withJobs(settings, (jobs) =>
          jobs.listDeadLetters({ ...filterOf(options), limit, cursor }),
        );
        printPage(output, page);
        return exitCodes.ok;
      });
    });
}

function addRetry(dead: CommandUnknownOpts, program: Program): void {
  withFilter(dead, "retry [ids...]", "run failed jobs again: those named, or all that match")
    .option("--all", "every dead letter, where no other choice is given")
    .option("--max <n>", "at most so many in one run, 1 to 10000", parseLimit(10_000), 1_000)
    .option("--reason <text>", "kept in the audit log")
    .option("--dry-run", "list what would be retried; change nothing")
    .option("--yes", "do not ask")
    .action(async (ids, options, command) => {
      const filter = filterOf(options);
      const filtered = Object.values(filter).some((value) => value !== undefined);
      if (ids.length === 0 && !filtered && options.all !== true) {
        throw new ConfigError("the waybill command", [
          {
            path: "dead retry",
            message: "name ids, or choose with --queue, --type, --class, --fingerprint or --all",
          },
        ]);
      }
      await program.run(command, ["databaseUrl"], async ({ settings, output }) =>
        withJobs(settings, async (jobs) => {
          const { letters, more } =
            ids.length > 0
              ? { letters: ids.map((id) => ({ id, queue: filter.queue })), more: false }
              : await collect(jobs, filter, options.max);
          if (options.dryRun === true) {
            if (output.json) output.object({ dryRun: true, more, deadLetters: letters });
            else
              for (const { id, queue } of letters)
                output.line(queue === undefined ? id : `${id} ${queue}`);
            output.note(`${letters.length} jobs would be retried. Nothing was changed.`);
            return exitCodes.ok;
          }
          if (ids.length === 0 && letters.length > 0) {
            const question = `Retry ${letters.length} failed jobs?`;
            if (!(await confirm(question, options.yes === true))) return exitCodes.failure;
          }
          const queues = new Map(letters.map(({ id, queue }) => [id, queue]));
          const results = await actOnEach(
            letters.map(({ id }) => id),
            async (id) => {
              await jobs.retry(id, { queue: queues.get(id), reason: options.reason });
              return "retried";
            },
          );
          if (more)
            output.note(`There are more than ${options.max}: run it again, or raise --max.`);
          if (letters.length === 0) output.note("No dead letter matches.");
          return reportActs(output, results);
        }),
      );
    });
}

/** `waybill dead list|retry`. */
export function addDeadCommand(root: CommandUnknownOpts, program: Program): void {
  const dead = root.command("dead").description("dead letters: jobs that failed for good");
  addList(dead, program);
  addRetry(dead, program);
}
