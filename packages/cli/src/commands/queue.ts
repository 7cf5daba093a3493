import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Program } from "../command.ts";
import { confirm } from "../confirm.ts";
import { exitCodes } from "../exit-codes.ts";
import { withQueues } from "../jobs-connection.ts";
import { shown } from "../output.ts";
import { checkKnown } from "../queue-names.ts";
import { printQueue, printQueues } from "../queue-output.ts";
import { addQueueSet } from "./queue-set.ts";

function addLooks(queue: CommandUnknownOpts, program: Program): void {
  queue
    .command("list", { isDefault: true })
    .description("queues: what limits them, what waits, who works for them")
    .action(async (_options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const queues = await withQueues(settings, (store) => store.list());
        if (output.json) output.object({ queues });
        else printQueues(output, queues);
        return exitCodes.ok;
      });
    });
  queue
    .command("show <name>")
    .description("one queue with its settings, paused types and keys, workers and history")
    .action(async (name, _options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const record = await withQueues(settings, (store) => store.get(name));
        if (output.json) output.object(record);
        else printQueue(output, record);
        return exitCodes.ok;
      });
    });
}

function addReset(queue: CommandUnknownOpts, program: Program): void {
  queue
    .command("reset <name>")
    .description("take back what operators have set; what code declares holds again")
    .option("--reason <text>", "kept in the audit log")
    .option("--yes", "do not ask")
    .action(async (name, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const question = `Take back all that operators have set of queue ${name}?`;
        if (!(await confirm(question, options.yes === true))) return exitCodes.failure;
        const { reason } = options;
        const now = await withQueues(settings, async (queues, knownNames) => {
          await checkKnown(name, false, knownNames);
          return await queues.reset(name, { reason });
        });
        if (output.json) output.object({ queue: name, settings: now });
        else output.line(`${name} reset`);
        return exitCodes.ok;
      });
    });
}

const stops = {
  pause: {
    description: "let nothing more of a queue, type or key start; what runs goes on",
    done: "paused",
    already: "was paused already",
  },
  resume: {
    description: "end a pause, and open what a handler has closed",
    done: "resumed",
    already: "was not paused",
  },
} as const;

function addStop(queue: CommandUnknownOpts, program: Program, verb: keyof typeof stops): void {
  queue
    .command(`${verb} <name>`)
    .description(stops[verb].description)
    .option("--type <name>", "only jobs of this name")
    .option("--key <text>", "only jobs of this concurrency key")
    .option("--reason <text>", "kept in the audit log")
    .option("--new", "a queue that nothing is known of yet")
    .action(async (name, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { type, key, reason, new: fresh } = options;
        const changed = await withQueues(settings, async (queues, knownNames) => {
          await checkKnown(name, fresh === true, knownNames);
          return await queues[verb]({ queue: name, type, key }, { reason });
        });
        const what =
          type === undefined ? (key === undefined ? "" : ` key ${key}`) : ` type ${type}`;
        if (output.json) output.object({ queue: name, type, key, changed });
        else
          output.line(`${name}${shown(what)} ${changed ? stops[verb].done : stops[verb].already}`);
        return exitCodes.ok;
      });
    });
}

function addTier(queue: CommandUnknownOpts, program: Program): void {
  queue
    .command("tier <name> <key> <tier>")
    .description('put a concurrency key into a tier of the queue\'s settings, or into "none"')
    .option("--reason <text>", "kept in the audit log")
    .action(async (name, key, tier, options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const { reason } = options;
        const wanted = tier === "none" ? null : tier;
        await withQueues(settings, async (queues, knownNames) => {
          await checkKnown(name, false, knownNames);
          await queues.setTier({ queue: name, key, tier: wanted }, { reason });
        });
        if (output.json) output.object({ queue: name, key, tier: wanted });
        else
          output.line(
            `${name} key ${shown(key)} ${wanted === null ? "no tier" : `tier ${wanted}`}`,
          );
        return exitCodes.ok;
      });
    });
}

/** `waybill queue list|show|set|reset|pause|resume|tier`. */
export function addQueueCommand(root: CommandUnknownOpts, program: Program): void {
  const queue = root
    .command("queue")
    .description("look at queues, change their limits, pause and resume them");
  addLooks(queue, program);
  addQueueSet(queue, program);
  addReset(queue, program);
  addStop(queue, program, "pause");
  addStop(queue, program, "resume");
  addTier(queue, program);
}
