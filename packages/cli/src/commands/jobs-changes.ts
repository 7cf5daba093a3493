/** `waybill jobs edit|priority|delay`: what is done to jobs that wait. */

import { readFile } from "node:fs/promises";
import { type CommandUnknownOpts, InvalidArgumentError } from "@commander-js/extra-typings";
import { ConfigError } from "@waybill/core";
import type { JobDelay } from "@waybill/postgres";
import type { Program } from "../command.ts";
import { confirm } from "../confirm.ts";
import { parseTime } from "../duration.ts";
import { exitCodes } from "../exit-codes.ts";
import { loadDefinition } from "../job-definitions.ts";
import { withJobs } from "../jobs-connection.ts";

const problem = (path: string, message: string, cause?: unknown): ConfigError =>
  new ConfigError("the waybill command", [{ path, message }], { cause });

/** The value of `--payload`: JSON, or `@` and the file that holds it. */
async function readPayload(given: string): Promise<unknown> {
  let text = given;
  if (given.startsWith("@")) {
    try {
      text = await readFile(given.slice(1), "utf8");
    } catch (error) {
      throw problem("--payload", `cannot read the file: ${(error as Error).message}`, error);
    }
  }
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message quotes the text, which may hold secrets.
    throw problem("--payload", "expected JSON, or @ and the name of a file that holds it");
  }
}

function parsePriority(text: string): number {
  const priority = Number(text);
  if (text.trim() !== "" && Number.isInteger(priority) && Math.abs(priority) <= 100)
    return priority;
  throw new InvalidArgumentError("expected a whole number from -100 to 100");
}

function parseInstant(text: string): Date {
  const instant = new Date(text);
  if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(instant.getTime())) return instant;
  throw new InvalidArgumentError("expected an instant such as 2030-01-31T08:00:00Z");
}

function addEdit(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("edit <id>")
    .description("replace the payload of a job that waits for a time or for its turn")
    .requiredOption("--payload <json>", "the new payload, or @ and the file that holds it")
    .option("--module <file>", "module that exports the job's definition, whose schema checks it")
    .option("--no-validate", "without --module: no schema checks it before the job's worker does")
    .option("--queue <name>", "which, where one id is known in several queues")
    .option("--reason <text>", "kept in the audit log")
    .option("--yes", "do not ask")
    .action(async (id, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { module, validate, queue, reason } = options;
        if (module === undefined && validate) {
          throw problem(
            "--module",
            "is needed to check the payload by the job's schema; or say --no-validate",
          );
        }
        if (module !== undefined && !validate) {
          throw problem("--no-validate", "does not go together with --module");
        }
        const payload = await readPayload(options.payload);
        const question = `Replace the payload of job ${id}?`;
        if (!(await confirm(question, options.yes === true))) return exitCodes.failure;
        await withJobs(settings, async (store) => {
          if (module === undefined) {
            return await store.edit(id, { unchecked: true, payload }, { queue, reason });
          }
          const { type } = await store.get(id, { queue });
          const job = await loadDefinition(module, type);
          return await store.edit(id, { job, payload }, { queue, reason });
        });
        if (output.json) output.object({ id, action: "edited" });
        else output.line(`${id} edited`);
        return exitCodes.ok;
      });
    });
}

function addPriority(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("priority <id>")
    .description("change the priority of a job that waits for a time or for its turn")
    .argument("<n>", "whole number, higher first, -100 to 100", parsePriority)
    .option("--queue <name>", "which, where one id is known in several queues")
    .option("--reason <text>", "kept in the audit log")
    .action(async (id, priority, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { queue, reason } = options;
        await withJobs(settings, (store) => store.reprioritise(id, priority, { queue, reason }));
        if (output.json) output.object({ id, action: "reprioritised", priority });
        else output.line(`${id} has priority ${priority}`);
        return exitCodes.ok;
      });
    });
}

function delayOf(forMs: number | undefined, until: Date | undefined): JobDelay {
  if ((forMs === undefined) !== (until === undefined)) return { delayMs: forMs, runAt: until };
  throw problem("jobs delay", "say one of --for and --until");
}

function addDelay(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("delay <id>")
    .description("put off a job that waits for its turn, or change the time that it waits for")
    .option("--for <time>", "from now, such as 10m", parseTime("30s, 5m or 2h"))
    .option("--until <instant>", "such as 2030-01-31T08:00:00Z", parseInstant)
    .option("--queue <name>", "which, where one id is known in several queues")
    .option("--reason <text>", "kept in the audit log")
    .action(async (id, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { queue, reason } = options;
        const delay = delayOf(options.for, options.until);
        const at = await withJobs(settings, (store) => store.delay(id, delay, { queue, reason }));
        if (output.json) output.object({ id, action: "delayed", runAt: at });
        else output.line(`${id} delayed until ${at.toISOString()}`);
        return exitCodes.ok;
      });
    });
}

/** Adds the commands that change jobs that wait. */
export function addJobsChanges(jobs: CommandUnknownOpts, program: Program): void {
  addEdit(jobs, program);
  addPriority(jobs, program);
  addDelay(jobs, program);
}
