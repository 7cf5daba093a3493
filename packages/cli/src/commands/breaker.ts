import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { BreakerState, DependencyRecord } from "@waybill/postgres";
import type { Program } from "../command.ts";
import { confirm } from "../confirm.ts";
import { formatDuration } from "../duration.ts";
import { exitCodes } from "../exit-codes.ts";
import { withDependencies } from "../jobs-connection.ts";
import { type Output, type Paint, shown } from "../output.ts";
import { parseLimit } from "../page-limit.ts";

const paints: Readonly<Record<BreakerState, Paint>> = {
  closed: "good",
  half_open: "warning",
  open: "bad",
};

const stateWords: Readonly<Record<BreakerState, string>> = {
  closed: "closed",
  half_open: "half open",
  open: "open",
};

function stateOf({ state, manual }: DependencyRecord): string {
  return manual ? `${stateWords[state]} by hand` : stateWords[state];
}

function probeOf({ probeInMs }: DependencyRecord): string {
  if (probeInMs === null) return "";
  return probeInMs === 0 ? "due" : `in ${formatDuration(probeInMs)}`;
}

/** What it takes to open, as a person would say it. */
function ruleOf({ settings }: DependencyRecord): string {
  const { failureRate, minimum, windowMs } = settings;
  return `${Math.round(failureRate * 1_000) / 10} % of ${minimum}+ in ${formatDuration(windowMs)}`;
}

function printDependencies(output: Output, dependencies: readonly DependencyRecord[]): void {
  output.table(
    ["name", "state", "failed", "attempts", "opens at", "probe", "since", "by", "reason"],
    dependencies.map((dependency) => {
      const { succeeded, failed } = dependency.counted;
      return [
        dependency.name,
        output.paint(paints[dependency.state], stateOf(dependency)),
        String(failed),
        String(succeeded + failed),
        ruleOf(dependency),
        probeOf(dependency),
        dependency.changedAt.toISOString(),
        shown(dependency.changedBy),
        shown(dependency.reason ?? ""),
      ];
    }),
  );
}

function addList(breaker: CommandUnknownOpts, program: Program): void {
  breaker
    .command("list", { isDefault: true })
    .description("breakers: their state, why, what they count, when the next probe may go")
    .action(async (_, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const dependencies = await withDependencies(settings, (store) => store.list());
        if (output.json) output.object({ dependencies });
        else if (dependencies.length > 0) printDependencies(output, dependencies);
        else output.note("No worker has declared a dependency.");
        return exitCodes.ok;
      });
    });
}

const questions = {
  open: (name: string) =>
    `Jobs that need ${name} wait until somebody closes its breaker. Open the breaker of ${name}?`,
  close: (name: string) => `Jobs that need ${name} go again. Close the breaker of ${name}?`,
} as const;

function addAct(breaker: CommandUnknownOpts, program: Program, verb: "open" | "close"): void {
  const description =
    verb === "open"
      ? "hold back all jobs that need the dependency until the breaker is closed by hand"
      : "let the jobs go again, whoever opened the breaker, and forget what it has counted";
  breaker
    .command(`${verb} <name>`)
    .description(description)
    .option("--reason <text>", "shown with the breaker, kept in its history and the audit log")
    .option("--yes", "do not ask")
    .action(async (name, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { reason, yes } = options;
        if (!(await confirm(questions[verb](shown(name)), yes === true))) return exitCodes.failure;
        const dependency = await withDependencies(settings, (store) =>
          store[verb](name, { reason }),
        );
        if (output.json) output.object(dependency);
        else output.line(`${dependency.name} ${stateOf(dependency)}`);
        return exitCodes.ok;
      });
    });
}

function addHistory(breaker: CommandUnknownOpts, program: Program): void {
  breaker
    .command("history <name>")
    .description("changes of a breaker, the latest first")
    .option("--limit <n>", "at most so many, 1 to 1000", parseLimit(1_000), 50)
    .action(async (name, { limit }, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const events = await withDependencies(settings, (store) => store.history(name, { limit }));
        if (output.json) output.object({ events });
        else {
          output.table(
            ["at", "state", "by", "reason"],
            events.map(({ at, state, actor, reason }) => [
              at.toISOString(),
              output.paint(paints[state], stateWords[state]),
              shown(actor),
              shown(reason ?? ""),
            ]),
          );
        }
        return exitCodes.ok;
      });
    });
}

/** `waybill breaker list|open|close|history`. */
export function addBreakerCommand(root: CommandUnknownOpts, program: Program): void {
  const breaker = root
    .command("breaker")
    .description("look at the circuit breakers of dependencies, open and close them");
  addList(breaker, program);
  addAct(breaker, program, "open");
  addAct(breaker, program, "close");
  addHistory(breaker, program);
}
