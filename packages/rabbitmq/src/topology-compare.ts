/** Compares a topology with what the management API shows: arguments, types and bindings. */

import type { ManagementClient } from "./management.ts";
import type { TopologyResult } from "./topology-apply.ts";
import { mismatchMessage, type TopologyDifference } from "./topology-mismatch.ts";
import type { Topology } from "./topology.ts";

function text(value: unknown): string {
  if (value === undefined) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Differences of one entity: every wanted value that is not the found one. */
function differencesOf(
  wanted: Readonly<Record<string, string | number | boolean>>,
  found: Readonly<Record<string, unknown>>,
): readonly TopologyDifference[] {
  return Object.entries(wanted)
    .filter(([argument, value]) => found[argument] !== value)
    .map(([argument, value]) => ({
      argument,
      wanted: text(value),
      found: text(found[argument]),
    }));
}

/** The results of a passive check, with arguments and bindings compared where they can be seen. */
export async function compareWithManagement(
  management: ManagementClient,
  vhost: string,
  topology: Topology,
  results: readonly TopologyResult[],
): Promise<readonly TopologyResult[]> {
  const queues = new Map((await management.queues(vhost)).map((queue) => [queue.name, queue]));
  const exchanges = new Map((await management.exchanges(vhost)).map((each) => [each.name, each]));
  const bound = new Set(
    (await management.bindings(vhost)).map(
      ({ source, destination, routing_key: key }) => `${source} -> ${destination} (${key})`,
    ),
  );
  const differences = new Map<string, readonly TopologyDifference[]>();
  for (const { name, type } of topology.exchanges) {
    const found = exchanges.get(name);
    if (found === undefined) continue;
    const facts = { type: found.type, durable: found.durable };
    differences.set(`exchange ${name}`, differencesOf({ type, durable: true }, facts));
  }
  for (const queue of topology.queues) {
    const found = queues.get(queue.name);
    if (found === undefined) continue;
    const facts = { ...found.arguments, durable: found.durable };
    differences.set(
      `queue ${queue.name}`,
      differencesOf({ ...queue.arguments, durable: true }, facts),
    );
  }
  return results.map((result) => {
    if (result.kind === "binding") {
      if (bound.has(result.name)) return { ...result, status: "ok" };
      return {
        ...result,
        status: "missing",
        message: `Cannot find binding ${result.name} at the broker. Run "waybill topology apply".`,
      };
    }
    const found = differences.get(`${result.kind} ${result.name}`);
    if (found === undefined || result.status === "missing") return result;
    if (found.length === 0) return { ...result, status: "ok", message: undefined };
    return {
      ...result,
      status: "mismatch",
      differences: found,
      message: mismatchMessage(result.kind, result.name, found),
    };
  });
}
