/** What the broker says: reachable, topology, policies, queues without consumers. */

import { WaybillError, type Logger } from "@waybill/core";
import {
  type BrokerConnection,
  checkTopology,
  type ManagementClient,
  type ManagementQueue,
  names,
  queueDepth,
  type Topology,
  type TopologyReport,
} from "@waybill/rabbitmq";
import { connectBroker } from "../broker.ts";
import { checkHolds } from "./consumer-timeout.ts";
import { type Finding, fine, notice, problem } from "./finding.ts";
import type { DeliveryHold } from "./worker-checks.ts";

/** Options of {@link checkBroker}. */
export interface BrokerChecks {
  readonly url: string;
  readonly vhost: string;
  readonly topology: Topology;
  readonly management: ManagementClient | undefined;
  /** Queues whose messages wait because somebody wants it so. */
  readonly paused: ReadonlySet<string>;
  /** How long workers hold deliveries. */
  readonly holds: readonly DeliveryHold[];
  readonly logger: Logger;
}

async function checkQueues(
  connection: BrokerConnection,
  { topology, paused }: BrokerChecks,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const ours = names(topology.prefix);
  const meant = new Set([...paused].map((queue) => ours.queueName(queue)));
  for (const { name, role } of topology.queues) {
    if (meant.has(name)) continue;
    const depth = await queueDepth(connection, name).catch(() => undefined);
    if (depth === undefined || role === "deadLetter") continue;
    if (depth.messages > 0 && depth.consumers === 0) {
      findings.push(
        problem(
          "queues",
          `${name}: ${depth.messages} messages and no consumer`,
          "start a worker that lists the queue",
        ),
      );
    }
  }
  return findings.length > 0
    ? findings
    : [fine("queues", "none with messages is without a consumer")];
}

async function checkPolicies(
  management: ManagementClient,
  queues: readonly ManagementQueue[],
  topology: Topology,
): Promise<Finding[]> {
  const ours = names(topology.prefix).limitsPolicy;
  const findings: Finding[] = [];
  if (await management.hasAlarm()) {
    findings.push(
      problem(
        "alarms",
        "a memory or disk alarm is on, so the broker accepts nothing",
        "free memory or disk on the broker's host",
      ),
    );
  }
  const wanted = new Set(
    topology.queues.filter(({ role }) => role !== "deadLetter").map(({ name }) => name),
  );
  let without = 0;
  for (const queue of queues) {
    if (!wanted.has(queue.name)) continue;
    const policy = queue.policy ?? "";
    if (policy === "") without += 1;
    else if (policy !== ours) {
      findings.push(
        notice(
          "policies",
          `${queue.name} follows the policy "${policy}", which replaces "${ours}" as a whole: only one policy applies to a queue`,
          `look at what "${policy}" sets, or give "${ours}" a higher priority`,
        ),
      );
    }
  }
  if (without > 0) {
    findings.push(
      notice(
        "policies",
        `${without} queues have no policy, so no length limit`,
        "waybill topology apply --policy",
      ),
    );
  }
  return findings.length > 0
    ? findings
    : [fine("policies", `"${ours}" applies to every queue, no alarm`)];
}

/** One finding for all that is missing, since one command mends it; one for each that differs. */
function topologyProblems(report: TopologyReport): Finding[] {
  const missing = report.results.filter(({ status }) => status === "missing");
  const findings = report.results.flatMap(({ status, message }) =>
    message === undefined || status === "missing"
      ? []
      : [
          problem(
            "topology",
            message,
            "waybill topology check shows it; see docs/guides/operations.md",
          ),
        ],
  );
  if (missing.length > 0) {
    const listed = missing.slice(0, 5).map(({ kind, name }) => `${kind} ${name}`);
    const more = missing.length > 5 ? ` and ${missing.length - 5} more` : "";
    findings.unshift(
      problem("topology", `missing: ${listed.join(", ")}${more}`, "waybill topology apply"),
    );
  }
  return findings;
}

async function checkWithManagement(
  checks: BrokerChecks,
  connection: BrokerConnection,
): Promise<Finding[]> {
  const { management, vhost, topology, holds } = checks;
  if (management === undefined) {
    return [
      {
        check: "policies",
        status: "skipped",
        message: "policies, alarms, arguments, bindings and limits were not looked at",
        remedy: "set RABBITMQ_MANAGEMENT_URL",
      },
    ];
  }
  const queues = await management.queues(vhost);
  return [
    ...(await checkPolicies(management, queues, topology)),
    ...checkHolds({
      holds,
      prefix: topology.prefix,
      queues,
      capabilities: connection.capabilities,
    }),
  ];
}

/** Who is logged in: a user that may do everything is one that a leaked URL gives everything to. */
async function checkUser({ url, management }: BrokerChecks): Promise<Finding> {
  const { username } = new URL(url);
  const user = username === "" ? "guest" : decodeURIComponent(username);
  const remedy =
    "give relay and workers users of their own: waybill topology definitions --users; see docs/guides/access.md";
  if (user === "guest")
    return notice("user", `the broker's user is guest, who is in every installation`, remedy);
  // Only an administrator may ask; for others the answer stays unknown.
  const tags = await management
    ?.request("GET", `users/${encodeURIComponent(user)}`)
    .then((found) => JSON.stringify((found as { readonly tags?: unknown } | undefined)?.tags ?? []))
    .catch(() => undefined);
  if (tags === undefined) return fine("user", `"${user}"; its tags were not looked at`);
  return /administrator/.test(tags)
    ? notice("user", `the broker's user "${user}" is an administrator`, remedy)
    : fine("user", `"${user}" is no administrator`);
}

/** Looks at the broker; an error of it is a finding. */
export async function checkBroker(checks: BrokerChecks): Promise<Finding[]> {
  const { topology, management, vhost } = checks;
  try {
    await using connection = await connectBroker(checks.url, checks.logger);
    const findings = [fine("broker", `RabbitMQ ${connection.capabilities?.version ?? ""}`)];
    findings.push(await checkUser(checks));
    const report = await checkTopology(connection, topology, { management, vhost });
    findings.push(...topologyProblems(report));
    if (report.ok) {
      findings.push(fine("topology", `${topology.queues.length} queues are as they should be`));
    }
    findings.push(...(await checkQueues(connection, checks)));
    findings.push(...(await checkWithManagement(checks, connection)));
    return findings;
  } catch (error) {
    if (!WaybillError.is(error)) throw error;
    return [
      problem(
        "broker",
        error.message,
        "correct RABBITMQ_URL or RABBITMQ_MANAGEMENT_URL, or start the broker",
      ),
    ];
  }
}
