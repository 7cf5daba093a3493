import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { ConfigError, type Logger } from "@waybill/core";
import {
  applyTopology,
  checkTopology,
  definitionsOf,
  leastRightUsers,
  names,
  type Topology,
  type TopologyReport,
  type TopologyResult,
} from "@waybill/rabbitmq";
import { connectBroker, managementOf, vhostOf } from "../broker.ts";
import type { Program } from "../command.ts";
import { withDatabase } from "../database.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import {
  type KnownQueues,
  parseSubscription,
  readKnownQueues,
  topologyFor,
} from "../known-topology.ts";
import type { Output } from "../output.ts";
import type { Settings } from "../settings.ts";

interface QueueOptions {
  readonly queue?: string[] | undefined;
  readonly subscription?: string[] | undefined;
}

async function wantedTopology(settings: Settings, options: QueueOptions): Promise<Topology> {
  if (options.queue !== undefined || options.subscription !== undefined) {
    const named: KnownQueues = {
      queues: options.queue ?? [],
      subscriptions: (options.subscription ?? []).map(parseSubscription),
    };
    return topologyFor(named, settings.prefix);
  }
  if (settings.databaseUrl === undefined) {
    throw new ConfigError("the waybill command", [
      {
        path: "DATABASE_URL",
        message:
          "is not set; set it to look the queues up there, or name them with --queue and --subscription",
      },
    ]);
  }
  const known = await withDatabase(settings.databaseUrl, (client) =>
    readKnownQueues(client, settings.schema),
  );
  return topologyFor(known, settings.prefix);
}

const paints = {
  ok: "good",
  unknown: "faint",
  missing: "bad",
  mismatch: "bad",
  refused: "bad",
} as const satisfies Record<TopologyResult["status"], string>;

function print(output: Output, topology: Topology, report: TopologyReport): void {
  if (output.json)
    return output.object({
      ok: report.ok,
      mode: report.mode,
      prefix: topology.prefix,
      results: report.results,
    });
  output.table(
    ["kind", "name", "status"],
    report.results.map(({ kind, name, status }) => [
      kind,
      name,
      output.paint(paints[status], status),
    ]),
  );
  for (const { kind, name, status, differences, message } of report.results) {
    for (const { argument, found, wanted } of differences) {
      output.line(`${kind} ${name}: ${argument}: found ${found ?? "?"}, wanted ${wanted ?? "?"}`);
    }
    if (message !== undefined && status !== "missing") output.warn(message);
  }
  if (report.results.some(({ status }) => status === "missing")) {
    output.note("Create what is missing: waybill topology apply");
  }
  if (topology.queues.length === 0) {
    output.note(
      "No queue is known yet: the database has seen no job and no worker. Name queues with --queue.",
    );
  }
}

async function look(
  settings: Settings & { readonly rabbitmqUrl: string },
  topology: Topology,
  logger: Logger,
): Promise<TopologyReport> {
  await using connection = await connectBroker(settings.rabbitmqUrl, logger);
  return await checkTopology(connection, topology, {
    management: managementOf(settings.managementUrl),
    vhost: vhostOf(settings.rabbitmqUrl),
  });
}

function queueOptions(
  parent: CommandUnknownOpts,
  name: string,
  description: string,
  isDefault = false,
) {
  return parent
    .command(name, { isDefault })
    .description(description)
    .option("--queue <names...>", "queues; default: those that the database knows")
    .option(
      "--subscription <name=events...>",
      "subscriptions, each with its events: billing=order.created,order.paid",
    );
}

async function apply(
  settings: Settings & { readonly rabbitmqUrl: string },
  topology: Topology,
  logger: Logger,
): Promise<TopologyReport> {
  await using connection = await connectBroker(settings.rabbitmqUrl, logger);
  return await applyTopology(connection, topology, "assert");
}

/** Sets the one policy that holds what an operator may tune. */
async function applyPolicy(
  settings: Settings & { readonly rabbitmqUrl: string },
  topology: Topology,
): Promise<string> {
  const management = managementOf(settings.managementUrl);
  if (management === undefined) {
    throw new ConfigError("the waybill command", [
      {
        path: "RABBITMQ_MANAGEMENT_URL",
        message: "is not set, and --policy needs it: policies are set through the management API",
      },
    ]);
  }
  const vhost = vhostOf(settings.rabbitmqUrl);
  const name = names(topology.prefix).limitsPolicy;
  const [policy] = definitionsOf(topology, { vhost }).policies;
  if (policy !== undefined) await management.putPolicy(vhost, name, policy);
  return name;
}

function exitCodeOf(report: TopologyReport): ExitCode {
  if (report.ok) return exitCodes.ok;
  return report.results.some(({ status }) => status === "ok")
    ? exitCodes.partial
    : exitCodes.failure;
}

/** `waybill topology check|apply|definitions`. */
export function addTopologyCommand(root: CommandUnknownOpts, program: Program): void {
  const topology = root
    .command("topology")
    .description("exchanges, queues and bindings: compare, create, print; nothing is ever deleted");

  queueOptions(
    topology,
    "check",
    "compare with the broker; exit 4 where something is missing or differs",
    true,
  ).action(async (options, command) => {
    await program.run(command, ["rabbitmqUrl"], async ({ settings, output, logger }) => {
      const wanted = await wantedTopology(settings, options);
      const report = await look(settings, wanted, logger);
      print(output, wanted, report);
      if (settings.managementUrl === undefined) {
        output.note("Arguments and bindings were not compared: set RABBITMQ_MANAGEMENT_URL.");
      }
      return report.ok ? exitCodes.ok : exitCodes.problems;
    });
  });

  queueOptions(
    topology,
    "apply",
    "create what is missing; exit 3 where something could not be created",
  )
    .option("--policy", "also set the policy with the queues' length limit (management API)")
    .option("--dry-run", "say what is missing; create nothing")
    .action(async (options, command) => {
      await program.run(command, ["rabbitmqUrl"], async ({ settings, output, logger }) => {
        const wanted = await wantedTopology(settings, options);
        if (options.dryRun === true) {
          print(output, wanted, await look(settings, wanted, logger));
          output.note("Nothing was changed.");
          return exitCodes.ok;
        }
        const report = await apply(settings, wanted, logger);
        print(output, wanted, report);
        if (options.policy === true)
          output.note(`Policy "${await applyPolicy(settings, wanted)}" is set.`);
        return exitCodeOf(report);
      });
    });

  queueOptions(topology, "definitions", "print RabbitMQ's definitions.json for the queues")
    .option("--users", "with users by least right, none of which has a password yet")
    .action(async (options, command) => {
      await program.run(command, [], async ({ settings, output }) => {
        const wanted = await wantedTopology(settings, options);
        const vhost = settings.rabbitmqUrl === undefined ? "/" : vhostOf(settings.rabbitmqUrl);
        const users = options.users === true ? leastRightUsers(settings.prefix) : [];
        output.line(JSON.stringify(definitionsOf(wanted, { vhost, users }), undefined, 2));
        if (users.length > 0) {
          output.note(
            "Import it once, then set passwords: rabbitmqctl change_password <user>. Importing the users again takes the passwords away.",
          );
        }
        return exitCodes.ok;
      });
    });
}
