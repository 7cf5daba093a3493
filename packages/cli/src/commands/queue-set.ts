import { type CommandUnknownOpts, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import type { RateLimit } from "@waybill/core";
import { settingWords } from "@waybill/postgres";
import type { Program } from "../command.ts";
import { parseTime } from "../duration.ts";
import { exitCodes } from "../exit-codes.ts";
import { withQueues } from "../jobs-connection.ts";
import { changeOf, parseRate } from "../queue-flags.ts";
import { checkKnown } from "../queue-names.ts";

const orNone =
  <T>(read: (text: string) => T) =>
  (text: string): T | "none" =>
    text === "none" ? "none" : read(text);

function parseCount(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1) return count;
  throw new InvalidArgumentError("expected a whole number from 1, or none");
}

function readRate(text: string): RateLimit {
  const rate = parseRate(text);
  if (rate !== undefined) return rate;
  throw new InvalidArgumentError("expected a number for a time, such as 200/s or 10/5m, or none");
}

/** `waybill queue set <name>`. */
export function addQueueSet(queue: CommandUnknownOpts, program: Program): void {
  queue
    .command("set <name>")
    .description(
      'change settings of a queue, over those that code declares; "none" takes a setting away',
    )
    .option("--concurrency <n>", "jobs at a time, over all workers", orNone(parseCount))
    .option("--rate <n/time>", "starts, such as 200/s or 10/5m", orNone(readRate))
    .option("--burst <n>", "starts that may come at once after a quiet time", parseCount)
    .option("--key-concurrency <n>", "jobs of one concurrency key at a time", orNone(parseCount))
    .option("--key-rate <n/time>", "starts of one concurrency key", orNone(readRate))
    .option("--weight <n>", "share of a key beside the others", orNone(parseCount))
    .option(
      "--aging <time>",
      "waiting that lifts a job by one priority",
      orNone(parseTime("10s or 5m, or none")),
    )
    .option("--order", "jobs of one ordering key run one at a time, in the order of commits")
    .option("--no-order", "take the order away")
    .option("--max-waiting <n>", "jobs that may wait", orNone(parseCount))
    .addOption(
      new Option("--when-full <policy>", "what an enqueue to a full queue does").choices([
        "refuse",
        "drop_oldest",
      ] as const),
    )
    .option("--settings <json>", "an object with the rest of the settings; null takes one away")
    .option("--reason <text>", "kept in the audit log")
    .option("--new", "a queue that nothing is known of yet")
    .action(async (name, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { reason, new: fresh, ...flags } = options;
        const set = await withQueues(settings, async (queues, knownNames) => {
          await checkKnown(name, fresh === true, knownNames);
          return await queues.set(name, (present) => changeOf(flags, present), { reason });
        });
        if (output.json) output.object({ queue: name, settings: set });
        else {
          for (const [setting, value] of Object.entries(set)) {
            output.line(`${setting.padEnd(12)} ${settingWords(value as typeof set.rate)}`);
          }
          if (Object.keys(set).length === 0) output.line("no settings");
        }
        return exitCodes.ok;
      });
    });
}
