/** Which queues a command is about: those it is told, or else those that the database knows. */

import { ConfigError } from "@waybill/core";
import { requireSchemaVersion, statementsFor } from "@waybill/postgres";
import { type Topology, topologyOf } from "@waybill/rabbitmq";
import type { Client } from "pg";

/** A subscription and the events it receives. */
export interface NamedSubscription {
  readonly subscription: string;
  readonly events: readonly string[];
}

/** Queues and subscriptions that somebody named or that were found. */
export interface KnownQueues {
  readonly queues: readonly string[];
  readonly subscriptions: readonly NamedSubscription[];
}

/**
 * Reads `name=event,event` of `--subscription`.
 *
 * @throws ConfigError for another form
 */
export function parseSubscription(text: string): NamedSubscription {
  const [subscription = "", events = "", ...rest] = text.split("=");
  const names = events.split(",").filter((name) => name !== "");
  if (subscription === "" || names.length === 0 || rest.length > 0) {
    throw new ConfigError("the waybill command", [
      {
        path: "--subscription",
        message: `expected name=event,event, found ${JSON.stringify(text)}`,
      },
    ]);
  }
  return { subscription, events: names };
}

/**
 * Queues that the database has heard of. One that was never enqueued to directly may be a
 * subscription, whose events nobody here knows: it counts as one without events, so that its queues
 * are looked at and no binding is demanded.
 */
export async function readKnownQueues(client: Client, schema: string): Promise<KnownQueues> {
  await requireSchemaVersion(client, schema);
  const statement = statementsFor(schema).list_known_queues;
  const { rows } = await client.query<{ queue: string; direct: string }>(statement.text);
  return {
    queues: rows.filter((row) => row.direct === "true").map((row) => row.queue),
    subscriptions: rows
      .filter((row) => row.direct !== "true")
      .map((row) => ({ subscription: row.queue, events: [] })),
  };
}

/** The topology of these queues under a prefix. */
export function topologyFor(known: KnownQueues, prefix: string): Topology {
  return topologyOf({ prefix, queues: known.queues, subscriptions: known.subscriptions });
}
