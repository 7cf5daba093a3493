/** Puts the commands together and turns what they throw into a message and an exit code. */

import { readFileSync } from "node:fs";
import { Command, type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { createProgram, type Program } from "./command.ts";
import { addAuditCommands } from "./commands/audit.ts";
import { addBreakerCommand } from "./commands/breaker.ts";
import { addDeadCommand } from "./commands/dead.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addJobsCommand } from "./commands/jobs.ts";
import { addMigrateCommand } from "./commands/migrate.ts";
import { addQueueCommand } from "./commands/queue.ts";
import { addRelayCommand } from "./commands/relay.ts";
import { addTopologyCommand } from "./commands/topology.ts";
import { addWorkerCommand } from "./commands/worker.ts";
import { addWorkersCommand } from "./commands/workers.ts";
import { readEnvironment } from "./env.ts";
import { type ExitCode, exitCodes } from "./exit-codes.ts";
import { shown } from "./output.ts";
import { exitCodeOf, renderError } from "./render-error.ts";
import { logLevels } from "./settings.ts";

const help = `
Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 partly done, 4 problems found, 130 interrupted.
Environment: DATABASE_URL, RABBITMQ_URL, LOG_LEVEL, WAYBILL_*; NAME_FILE reads a secret from a file.
Reference: docs/reference/cli.md`;

function packageVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

/** The `waybill` command with all its subcommands. */
export function buildCommand(program: Program): CommandUnknownOpts {
  const root = new Command("waybill")
    .description("Background jobs through PostgreSQL and RabbitMQ: run the daemons, look, mend.")
    .version(packageVersion())
    .addOption(
      new Option("--database-url <url>", "PostgreSQL, without a password; default DATABASE_URL"),
    )
    .addOption(
      new Option("--rabbitmq-url <url>", "broker, without a password; default RABBITMQ_URL"),
    )
    .addOption(
      new Option("--schema <name>", 'PostgreSQL schema; default WAYBILL_SCHEMA or "waybill"'),
    )
    .addOption(
      new Option("--prefix <name>", 'prefix at the broker; default WAYBILL_PREFIX or "waybill"'),
    )
    .addOption(new Option("--log-level <level>", "log lines; default LOG_LEVEL").choices(logLevels))
    .option("--json", "one JSON object on stdout")
    .option("--quiet", "no messages on stderr but errors")
    .option("--no-color", "no colours; also NO_COLOR")
    .configureHelp({ showGlobalOptions: true })
    .exitOverride()
    // It quotes what it does not understand, and that may be a URL with its password.
    .configureOutput({ outputError: (text, write) => write(shown(text)) })
    .addHelpText("after", help);
  addMigrateCommand(root, program);
  addRelayCommand(root, program);
  addWorkerCommand(root, program);
  addTopologyCommand(root, program);
  addJobsCommand(root, program);
  addDeadCommand(root, program);
  addQueueCommand(root, program);
  addWorkersCommand(root, program);
  addBreakerCommand(root, program);
  addAuditCommands(root, program);
  addDoctorCommand(root, program);
  return root;
}

/**
 * Runs the command line.
 *
 * @param args without the program's own name
 * @returns the exit code; never rejects
 */
export async function runCli(args: readonly string[]): Promise<ExitCode> {
  let code: ExitCode = exitCodes.ok;
  const program = createProgram(readEnvironment(), (given) => {
    code = given;
  });
  const root = buildCommand(program);
  try {
    await root.parseAsync(args, { from: "user" });
    return code;
  } catch (error) {
    const level = (root.opts() as { readonly logLevel?: string }).logLevel;
    const text = renderError(error, level === "debug" || level === "trace");
    if (text !== "") process.stderr.write(`${text}\n`);
    return exitCodeOf(error);
  }
}
