import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { StopRequest, WorkerRecord, WorkerSelector } from "@waybill/postgres";
import type { Program } from "../command.ts";
import { confirm } from "../confirm.ts";
import { formatDuration, parseTime } from "../duration.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { withWorkers } from "../jobs-connection.ts";
import { type Output, type Paint, shown } from "../output.ts";
import { type StopResult, watchStops } from "../worker-stops.ts";

/** What the list says of a worker in a word or two. */
type WorkerState = "running" | "drain requested" | "restart requested" | "draining" | "dead";

const paints: Readonly<Record<WorkerState, Paint>> = {
  running: "good",
  "drain requested": "warning",
  "restart requested": "warning",
  draining: "warning",
  dead: "bad",
};

function stateOf(worker: WorkerRecord): WorkerState {
  if (!worker.alive) return "dead";
  if (worker.state === "draining") return "draining";
  return worker.stopRequested === null ? "running" : `${worker.stopRequested} requested`;
}

/** So much of an id is enough to name it. */
const shortId = (id: string): string => id.slice(0, 8);

const mebibytes = (bytes: number | null): string =>
  bytes === null ? "" : `${Math.round(bytes / 1_048_576)} MiB`;

function blocked({ blockedMs, blockedBy }: WorkerRecord): string {
  if (blockedMs === null) return "";
  return `${formatDuration(blockedMs)}${blockedBy === null ? "" : ` by ${shown(blockedBy)}`}`;
}

function printWorkers(output: Output, workers: readonly WorkerRecord[], dead: boolean): void {
  const head = ["name", "id", "host", "pid", "version", "state", "queues", "running", "finished"];
  const more = ["memory", "heartbeat", "lease", "blocked", "since"];
  output.table(
    [...head, ...(dead ? ["owns"] : []), ...more],
    workers.map((worker) => {
      const state = stateOf(worker);
      return [
        shown(worker.name),
        shortId(worker.id),
        shown(worker.host),
        String(worker.pid),
        worker.version,
        output.paint(paints[state], state),
        worker.queues.join(","),
        String(worker.running),
        String(worker.finishedJobs),
        ...(dead ? [worker.ownedJobs === null ? "" : String(worker.ownedJobs)] : []),
        mebibytes(worker.rssBytes),
        `${formatDuration(worker.heartbeatAgeMs)} ago`,
        worker.leaseLeftMs === 0 ? "over" : formatDuration(worker.leaseLeftMs),
        blocked(worker),
        worker.startedAt.toISOString(),
      ];
    }),
  );
}

function addList(workers: CommandUnknownOpts, program: Program): void {
  workers
    .command("list", { isDefault: true })
    .description("workers: what they run, their heartbeat, what blocks them")
    .option("--queue <name>", "only those that consume this queue or subscription")
    .option("--all", "dead workers as well, with the jobs that they still own")
    .action(async (options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const dead = options.all === true;
        const { queue } = options;
        const found = await withWorkers(settings, (store) => store.list({ dead, ownedJobs: dead }));
        const listed = found.filter(({ queues }) => queue === undefined || queues.includes(queue));
        if (output.json) output.object({ workers: listed });
        else printWorkers(output, listed, dead);
        return exitCodes.ok;
      });
    });
}

const words: Readonly<Record<StopRequest, { readonly asked: string; readonly effect: string }>> = {
  drain: {
    asked: "asked to drain",
    effect: "Drained ones take no jobs until their process is restarted.",
  },
  restart: { asked: "asked to restart", effect: "Something must start their processes again." },
};

/** What was asked of it, or what somebody had asked before. */
function askedLine(request: StopRequest, { stopRequested }: WorkerRecord): string {
  return request === "drain" && stopRequested === "restart"
    ? "was asked to restart before, which stands"
    : words[request].asked;
}

function outcomeLine({ outcome, state, running }: StopResult): string {
  switch (outcome) {
    case "drained":
      return "drained";
    case "ended":
      return "ended";
    case "died":
      return "died or lost its lease: its jobs are taken over";
    case "pending":
      if (state === "running") return "has not begun to drain";
      return running === 0
        ? "is idle and has not ended yet"
        : `still runs ${running} ${running === 1 ? "job" : "jobs"}`;
  }
}

function selectorOf(
  names: readonly string[],
  queue: string | undefined,
  all: true | undefined,
): WorkerSelector {
  return { workers: names.length === 0 ? undefined : names, queue, all };
}

const nameOf = ({ name, id }: WorkerRecord): string => `${shown(name)} ${shortId(id)}`;

function question(request: StopRequest, chosen: readonly WorkerRecord[]): string {
  const some = chosen.slice(0, 5).map(nameOf).join(", ");
  const more = chosen.length > 5 ? ` and ${chosen.length - 5} more` : "";
  const act = request === "drain" ? "Drain" : "Restart";
  return `${words[request].effect} ${act} ${some}${more}?`;
}

/** In time are those that stopped as they were asked to: a crash is no drain. */
const inTime = ({ outcome }: StopResult): boolean => outcome === "drained" || outcome === "ended";

function report(
  output: Output,
  request: StopRequest,
  results: readonly StopResult[],
  waited: boolean,
): ExitCode {
  const stopped = results.filter(inTime).length;
  if (output.json) output.object({ request, asked: results.length, stopped, workers: results });
  else if (waited) {
    for (const result of results)
      if (result.outcome === "pending") output.line(`${nameOf(result)} ${outcomeLine(result)}`);
  }
  return waited && stopped < results.length ? exitCodes.partial : exitCodes.ok;
}

function addStop(workers: CommandUnknownOpts, program: Program, request: StopRequest): void {
  const description =
    request === "drain"
      ? "ask workers to take no more jobs, finish what they run, and stay"
      : "ask workers to finish what they run and end with exit code 0, so that they are started anew";
  workers
    .command(`${request} [workers...]`)
    .description(description)
    .option("--queue <name>", "only those that consume this queue or subscription")
    .option("--all", "every worker, where no other choice is given")
    .option("--reason <text>", "kept in the audit log")
    .option(
      "--wait <time>",
      "wait until they have stopped; exit 3 if not all do",
      parseTime("30s, 5m or 2h"),
    )
    .option("--yes", "do not ask")
    .action(async (names, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) =>
        withWorkers(settings, async (store) => {
          const { queue, all, reason, wait } = options;
          const selector = selectorOf(names, queue, all);
          const chosen = await store.select(selector);
          if (chosen.length === 0) output.note("No worker is alive.");
          else if (!(await confirm(question(request, chosen), options.yes === true)))
            return exitCodes.failure;
          const asked = await store[request](selector, { reason });
          if (!output.json)
            for (const worker of asked)
              output.line(`${nameOf(worker)} ${askedLine(request, worker)}`);
          const results = await watchStops(store, asked, wait ?? 0, (result) => {
            if (!output.json && wait !== undefined)
              output.line(`${nameOf(result)} ${outcomeLine(result)}`);
          });
          return report(output, request, results, wait !== undefined);
        }),
      );
    });
}

/** `waybill workers list|drain|restart`. */
export function addWorkersCommand(root: CommandUnknownOpts, program: Program): void {
  const workers = root
    .command("workers")
    .description("look at workers, drain and restart them, wherever they run");
  addList(workers, program);
  addStop(workers, program, "drain");
  addStop(workers, program, "restart");
}
