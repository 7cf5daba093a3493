/** Renders the reference of the broker's topology from the function that declares it. */

import { waybillHeaders } from "@waybill/core";
import { topologyOf } from "@waybill/rabbitmq";

const headerMeanings: Readonly<Record<keyof typeof waybillHeaders, string>> = {
  dispatch: "number of the dispatch: 1 for the first",
  version: "version of the payload's shape",
  priority: "priority, where there is one: an integer, higher first",
  orderingKey: "ordering key, where there is one",
  expiresAt: "milliseconds since 1970 after which the job is not started",
  enqueuedAt: "milliseconds since 1970 when the job was enqueued",
  onTerminal: "event that is published when the job ends, where it asks for one",
  concurrencyKey: "concurrency key, where there is one",
  slot: "schema whose slot the job runs in, of governed queues",
  origin: "database that published the message; another one after a failover or a restore",
  queue: "queue of a dead letter",
  death: "which death of the job this dead letter is",
  error: "message of the last failure",
  errorClass: "its failure class",
  attempts: "attempts made",
  failedAt: "when it failed, ISO 8601",
  signature: "HMAC of everything that a worker believes, where the relay has keys",
};

/** The page docs/reference/topology.md. */
export function renderTopology(): string {
  const topology = topologyOf({
    queues: ["emails"],
    subscriptions: [{ subscription: "billing", events: ["order.created"] }],
  });
  const lines = [
    "# Topology and envelope",
    "",
    "Made from `packages/rabbitmq/src/topology.ts` and `packages/core/src/envelope.ts` by",
    "`npm run generate`: what a worker with the queue `emails` and a subscription `billing` of the event",
    "`order.created` declares.",
    "",
    "## Exchanges",
    "",
    "| exchange | type |",
    "|---|---|",
    ...topology.exchanges.map(({ name, type }) => `| \`${name}\` | ${type}, durable |`),
    "",
    "## Queues",
    "",
    "| queue | argument | value |",
    "|---|---|---|",
    ...topology.queues.flatMap((queue) =>
      Object.entries(queue.arguments).map(
        ([key, value]) => `| \`${queue.name}\` | \`${key}\` | \`${value}\` |`,
      ),
    ),
    "",
    "## Bindings",
    "",
    "| exchange | routing key | queue |",
    "|---|---|---|",
    ...topology.bindings.map(
      ({ exchange, queue, routingKey }) => `| \`${exchange}\` | \`${routingKey}\` | \`${queue}\` |`,
    ),
    "",
    "The first dispatch of a job goes to the jobs exchange. Later ones (retries, redrives, repairs) go",
    "through the default exchange to their queue alone.",
    "",
    "## Message",
    "",
    "| property | value |",
    "|---|---|",
    "| `message_id` | job id |",
    "| `type` | job name, or event name |",
    "| `timestamp` | when the job was enqueued, seconds |",
    "| `correlation_id` | as given to enqueue |",
    "| `content_type` | `application/json` |",
    "| `delivery_mode` | 2 |",
    "",
    "| header | value |",
    "|---|---|",
    ...Object.entries(waybillHeaders).map(
      ([key, name]) => `| \`${name}\` | ${headerMeanings[key as keyof typeof waybillHeaders]} |`,
    ),
    "",
    "Numbers in headers are sent as 64-bit integers. Headers given to enqueue travel beside these.",
  ];
  return `${lines.join("\n")}\n`;
}
