/** `waybill jobs explain` and `waybill jobs blocked`: why jobs do not run. */

import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { BlockedKey, JobExplanation } from "@waybill/postgres";
import type { Program } from "../command.ts";
import { exitCodes } from "../exit-codes.ts";
import { instant } from "../job-words.ts";
import { withJobs } from "../jobs-connection.ts";
import { type Output, shown } from "../output.ts";
import { parseLimit } from "../page-limit.ts";

/** The answer of `jobs explain` and `audit --explain`. */
export function printExplanation(output: Output, explained: JobExplanation): void {
  const { id, queue, type, state, governed, heldBy, gates } = explained;
  if (output.json) return output.object(explained);
  const kind = governed ? "governed" : "pass-through";
  output.line(`${id} ${type} in ${queue} (${kind}): ${state}`);
  output.line(
    heldBy === null
      ? "Nothing holds it."
      : `Held by ${output.paint("warning", heldBy.gate)}: ${shown(heldBy.detail)}`,
  );
  output.line();
  output.table(
    ["gate", "holds", "detail"],
    gates.map((gate) => [
      gate.gate,
      gate.holds ? output.paint("warning", "yes") : "no",
      shown(gate.detail),
    ]),
  );
}

function printBlocked(output: Output, blocked: readonly BlockedKey[]): void {
  if (output.json) return output.object({ blocked });
  output.table(
    ["queue", "ordering key", "job", "since", "behind it", "reason", "detail"],
    blocked.map((key) => [
      key.queue,
      shown(key.orderingKey),
      key.jobId,
      instant(key.since),
      String(key.jobs),
      key.reason,
      shown(key.detail).slice(0, 120),
    ]),
  );
  if (blocked.some(({ reason }) => reason === "retry")) {
    output.note(
      "waybill jobs retry <job> tries one again at once, waybill jobs cancel <job> ends it.",
    );
  }
}

/** Adds the commands that tell why jobs do not run. */
export function addJobsExplain(jobs: CommandUnknownOpts, program: Program): void {
  jobs
    .command("explain <id>")
    .description("what a job has to pass before it runs, and what holds it now")
    .option("--queue <name>", "which, where one id is known in several queues")
    .action(async (id, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { queue } = options;
        printExplanation(output, await withJobs(settings, (store) => store.explain(id, { queue })));
        return exitCodes.ok;
      });
    });
  jobs
    .command("blocked")
    .description("ordering keys whose first job keeps others waiting, and why")
    .option("--queue <name>", "only this queue")
    .option("--limit <n>", "at most so many, 1 to 1000", parseLimit(1_000), 100)
    .action(async (options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { queue, limit } = options;
        printBlocked(output, await withJobs(settings, (store) => store.blocked({ queue, limit })));
        return exitCodes.ok;
      });
    });
}
