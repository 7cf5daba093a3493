import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { WaybillError } from "@waybill/core";
import { statementsFor } from "@waybill/postgres";
import type { Client } from "pg";
import { managementOf, vhostOf } from "../broker.ts";
import type { CommandRun, Program } from "../command.ts";
import { withDatabase } from "../database.ts";
import { checkBroker } from "../doctor/broker-checks.ts";
import { type Finding, problem } from "../doctor/finding.ts";
import { checkPauses, pausedQueues, readPauses } from "../doctor/pause-checks.ts";
import {
  type Ask,
  askOn,
  checkDeadLetters,
  checkRelay,
  checkTimers,
  checkTransactions,
} from "../doctor/pipeline-checks.ts";
import { checkRetention, checkSchema, checkServer } from "../doctor/server-checks.ts";
import {
  checkLeases,
  checkStaleJobs,
  checkWorkers,
  type DeliveryHold,
  holdsOf,
  readLivingWorkers,
} from "../doctor/worker-checks.ts";
import { exitCodes } from "../exit-codes.ts";
import { type KnownQueues, readKnownQueues, topologyFor } from "../known-topology.ts";
import type { Output, Paint } from "../output.ts";

type Run = CommandRun<"databaseUrl" | "relayDatabaseUrl" | "rabbitmqUrl">;

interface DatabaseReport {
  readonly findings: readonly Finding[];
  readonly known: KnownQueues;
  readonly holds: readonly DeliveryHold[];
  readonly paused: ReadonlySet<string>;
}

const nothingKnown: Omit<DatabaseReport, "findings"> = {
  known: { queues: [], subscriptions: [] },
  holds: [],
  paused: new Set(),
};

async function examine(client: Client, schema: string, variable: string): Promise<DatabaseReport> {
  const ask = askOn(client, statementsFor(schema));
  const findings = [...(await checkServer(ask, client, variable))];
  const version = await checkSchema(client, schema);
  findings.push(version);
  if (version.status !== "ok") {
    const message = "the tables were not looked at: the schema has another version";
    findings.push({ check: "pipeline", status: "skipped", message });
    return { findings, ...nothingKnown };
  }
  const workers = await readLivingWorkers(ask);
  const pauses = await readPauses(ask);
  const paused = pausedQueues(pauses);
  for (const check of [
    checkRelay,
    checkTimers,
    checkDeadLetters,
    (on: Ask) => checkWorkers(on, workers, paused),
    checkLeases,
    checkStaleJobs,
    checkTransactions,
  ]) {
    findings.push(...(await check(ask)));
  }
  findings.push(...checkPauses(pauses), await checkRetention(ask));
  const known = await readKnownQueues(client, schema);
  return { findings, known, holds: holdsOf(workers), paused };
}

/** A database that cannot be used is a finding as well: the broker is still looked at. */
async function examineDatabase({ settings }: Run): Promise<DatabaseReport> {
  const direct = settings.relayDatabaseUrl !== settings.databaseUrl;
  const variable = direct ? "WAYBILL_RELAY_DATABASE_URL" : "DATABASE_URL";
  try {
    return await withDatabase(settings.relayDatabaseUrl, (client) =>
      examine(client, settings.schema, variable),
    );
  } catch (error) {
    if (!WaybillError.is(error)) throw error;
    const finding = problem("database", error.message, `correct ${variable}, or start the server`);
    return { findings: [finding], ...nothingKnown };
  }
}

const marks: Readonly<Record<Finding["status"], readonly [string, Paint]>> = {
  ok: ["ok", "good"],
  notice: ["notice", "warning"],
  problem: ["problem", "bad"],
  skipped: ["skipped", "faint"],
};

function print(output: Output, findings: readonly Finding[]): void {
  for (const { check, status, message, remedy } of findings) {
    const [word, paint] = marks[status];
    output.line(`${output.paint(paint, word.padEnd(8))} ${check}: ${message}`);
    if (remedy !== undefined) output.line(`${" ".repeat(9)}-> ${remedy}`);
  }
}

/** `waybill doctor`: looks at everything and says what mends each finding. */
export function addDoctorCommand(root: CommandUnknownOpts, program: Program): void {
  root
    .command("doctor")
    .description(
      "look at database, broker, relay, workers and parked messages; exit 4 for problems",
    )
    .action(async (_options, command) => {
      const needs = ["databaseUrl", "relayDatabaseUrl", "rabbitmqUrl"] as const;
      await program.run(command, needs, async (run) => {
        const { settings, output, logger } = run;
        const database = await examineDatabase(run);
        const broker = await checkBroker({
          url: settings.rabbitmqUrl,
          vhost: vhostOf(settings.rabbitmqUrl),
          topology: topologyFor(database.known, settings.prefix),
          management: managementOf(settings.managementUrl),
          holds: database.holds,
          paused: database.paused,
          logger,
        });
        const findings = [...database.findings, ...broker];
        const problems = findings.filter(({ status }) => status === "problem").length;
        if (output.json) output.object({ ok: problems === 0, problems, findings });
        else {
          print(output, findings);
          output.note(
            problems === 0
              ? "No problem found."
              : `${problems} ${problems === 1 ? "problem" : "problems"} found.`,
          );
        }
        return problems === 0 ? exitCodes.ok : exitCodes.problems;
      });
    });
}
