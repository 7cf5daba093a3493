/**
 * Declares a topology, or looks whether it is there. Entity by entity, because a refused
 * declaration closes its channel: each problem is reported with its own name and the others go on.
 * Never deletes or changes anything that exists.
 */

import { BrokerUnavailableError } from "@waybill/core";
import type { BrokerChannel } from "./channel.ts";
import { codeOf, textOf } from "./connection-errors.ts";
import type { BrokerConnection } from "./connection.ts";
import type { ManagementClient } from "./management.ts";
import { compareWithManagement } from "./topology-compare.ts";
import { mismatchMessage, parseMismatch, type TopologyDifference } from "./topology-mismatch.ts";
import type { Topology } from "./topology.ts";

/**
 * `assert` declares what is missing (needs configure rights); `check` only looks, which the least
 * rights allow; `off` does neither.
 */
export type TopologyMode = "assert" | "check" | "off";

/**
 * `ok`; `missing`; `mismatch`: exists with other arguments; `refused`: this user may not;
 * `unknown`: cannot be seen without the management API.
 */
export type TopologyStatus = "ok" | "missing" | "mismatch" | "refused" | "unknown";

/** What was found out about one exchange, queue or binding. */
export interface TopologyResult {
  readonly kind: "exchange" | "queue" | "binding";
  /** Name; of a binding: "exchange -> queue (routing key)". */
  readonly name: string;
  readonly status: TopologyStatus;
  readonly differences: readonly TopologyDifference[];
  /** What is wrong and what to do, for every status but `ok` and `unknown`. */
  readonly message: string | undefined;
}

/** The whole report. */
export interface TopologyReport {
  readonly mode: TopologyMode;
  /** True if nothing is missing, different or refused. */
  readonly ok: boolean;
  readonly results: readonly TopologyResult[];
}

/** Options of {@link checkTopology}. */
export interface TopologyCheckOptions {
  /** With it, arguments and bindings are compared too. */
  readonly management?: ManagementClient | undefined;
  /** The virtual host to ask the management API about. @default "/" */
  readonly vhost?: string | undefined;
}

/** A binding in words. */
export function bindingName(binding: Topology["bindings"][number]): string {
  return `${binding.exchange} -> ${binding.queue} (${binding.routingKey})`;
}

function report(mode: TopologyMode, results: readonly TopologyResult[]): TopologyReport {
  const ok = results.every(({ status }) => status === "ok" || status === "unknown");
  return { mode, ok, results };
}

function explain(kind: TopologyResult["kind"], name: string, error: unknown): TopologyResult {
  const text = textOf(error);
  const base = { kind, name, differences: [] };
  switch (codeOf(error)) {
    case 404:
      return {
        ...base,
        status: "missing",
        message: `Cannot find ${kind} "${name}" at the broker. Run "waybill topology apply".`,
      };
    case 403:
    case 405:
      return {
        ...base,
        status: "refused",
        message:
          `Cannot use ${kind} "${name}": this user may not (${text}). ` +
          `Grant it, or run with topology "check" and let an administrator apply it.`,
      };
    case 406: {
      const difference = parseMismatch(text);
      const differences = difference === undefined ? [] : [difference];
      return {
        ...base,
        status: "mismatch",
        differences,
        message:
          kind === "binding" || difference === undefined
            ? `Cannot declare ${kind} "${name}": ${text}. Correct it at the broker.`
            : mismatchMessage(kind, name, differences),
      };
    }
    default:
      // Not about this entity: the connection is gone, the broker is in trouble, or it is silent.
      throw new BrokerUnavailableError(
        `Cannot declare ${kind} "${name}": ${text}. It is safe to run this again.`,
        false,
        { cause: error },
      );
  }
}

/** Runs declarations one after the other, on a new channel after each refusal. */
class Declarer {
  #channel: BrokerChannel | undefined;
  readonly #connection: BrokerConnection;

  constructor(connection: BrokerConnection) {
    this.#connection = connection;
  }

  async run(
    kind: TopologyResult["kind"],
    name: string,
    call: (channel: BrokerChannel["raw"]) => Promise<unknown>,
  ): Promise<TopologyResult> {
    if (this.#channel?.isOpen !== true) this.#channel = await this.#connection.openChannel();
    try {
      await this.#channel.call(`declare ${kind} "${name}"`, call);
      return { kind, name, status: "ok", differences: [], message: undefined };
    } catch (error) {
      this.#channel = undefined;
      return explain(kind, name, error);
    }
  }

  async end(): Promise<void> {
    await this.#channel?.close();
  }
}

/**
 * Declares exchanges, queues and bindings.
 *
 * @throws BrokerUnavailableError if the connection is lost meanwhile; applying again is safe
 */
async function assertTopology(
  connection: BrokerConnection,
  topology: Topology,
): Promise<TopologyReport> {
  const declarer = new Declarer(connection);
  const results: TopologyResult[] = [];
  try {
    for (const { name, type } of topology.exchanges) {
      results.push(
        await declarer.run("exchange", name, (raw) =>
          raw.assertExchange(name, type, { durable: true }),
        ),
      );
    }
    for (const queue of topology.queues) {
      results.push(
        await declarer.run("queue", queue.name, (raw) =>
          raw.assertQueue(queue.name, { durable: true, arguments: { ...queue.arguments } }),
        ),
      );
    }
    for (const binding of topology.bindings) {
      results.push(
        await declarer.run("binding", bindingName(binding), (raw) =>
          raw.bindQueue(binding.queue, binding.exchange, binding.routingKey, {}),
        ),
      );
    }
  } finally {
    await declarer.end();
  }
  return report("assert", results);
}

/**
 * Looks whether a topology is there, by passive declares, which change nothing and need no
 * configure right. With the management API it also compares arguments and bindings.
 *
 * @throws BrokerUnavailableError if the connection or the management API is lost meanwhile
 */
export async function checkTopology(
  connection: BrokerConnection,
  topology: Topology,
  options: TopologyCheckOptions = {},
): Promise<TopologyReport> {
  const declarer = new Declarer(connection);
  const results: TopologyResult[] = [];
  // Where passive declares need a right on the name, "refused" only says that this user cannot
  // see the entity: a relay has no business with a queue, for example.
  const blind = connection.capabilities?.passiveDeclareNeedsPermission ?? false;
  const push = (result: TopologyResult): void => {
    const unseen = result.status === "refused" && blind;
    results.push(unseen ? { ...result, status: "unknown", message: undefined } : result);
  };
  try {
    for (const { name } of topology.exchanges) {
      push(await declarer.run("exchange", name, (raw) => raw.checkExchange(name)));
    }
    for (const { name } of topology.queues) {
      push(await declarer.run("queue", name, (raw) => raw.checkQueue(name)));
    }
  } finally {
    await declarer.end();
  }
  for (const binding of topology.bindings) {
    results.push({
      kind: "binding",
      name: bindingName(binding),
      status: "unknown",
      differences: [],
      message: undefined,
    });
  }
  if (options.management === undefined) return report("check", results);
  return report(
    "check",
    await compareWithManagement(options.management, options.vhost ?? "/", topology, results),
  );
}

/**
 * Brings a topology into the state that `mode` asks for and reports on each entity. Does not throw
 * for an entity that is missing, different or refused: that is in the report.
 *
 * @throws BrokerUnavailableError if the connection is lost meanwhile; applying again is safe
 */
export async function applyTopology(
  connection: BrokerConnection,
  topology: Topology,
  mode: TopologyMode,
  options: TopologyCheckOptions = {},
): Promise<TopologyReport> {
  switch (mode) {
    case "off":
      return report("off", []);
    case "check":
      return await checkTopology(connection, topology, options);
    case "assert":
      return await assertTopology(connection, topology);
  }
}
