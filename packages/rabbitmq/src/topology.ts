/**
 * Which exchanges, queues and bindings Waybill has, as a pure function of names. Arguments hold
 * only what correctness needs and what never changes, because a queue's arguments cannot be
 * changed in place; what an operator may tune belongs to the policy (see definitions.ts).
 */

import {
  checkQueueName,
  checkTopologyPrefix,
  checkTypeName,
  NameError,
  type TopologyNames,
  topologyNames,
} from "@waybill/core";

/** Queue type of all queues of a topology. `classic` is for single nodes with little memory. */
export type QueueType = "quorum" | "classic";

/** An exchange, as declared. */
export interface TopologyExchange {
  readonly name: string;
  readonly type: "topic" | "direct";
}

/** A queue, as declared: always durable, never exclusive or auto-deleted. */
export interface TopologyQueue {
  /** Name at the broker: `waybill.email`, `waybill.email.dlq`. */
  readonly name: string;
  /** Name of the queue or subscription it belongs to: `email`. */
  readonly queue: string;
  readonly role: "work" | "subscription" | "deadLetter";
  readonly arguments: Readonly<Record<string, string | number>>;
}

/** A binding, as declared. */
export interface TopologyBinding {
  readonly exchange: string;
  readonly queue: string;
  readonly routingKey: string;
}

/** Everything to declare, in the order of declaration. */
export interface Topology {
  readonly prefix: string;
  readonly exchanges: readonly TopologyExchange[];
  readonly queues: readonly TopologyQueue[];
  readonly bindings: readonly TopologyBinding[];
}

/** Options of {@link topologyOf}. */
export interface TopologyOptions {
  /** @default "waybill" */
  readonly prefix?: string | undefined;
  /** Queues of jobs. */
  readonly queues: readonly string[];
  /** Subscriptions and the events each receives. They share the names of queues. */
  readonly subscriptions?:
    | readonly { readonly subscription: string; readonly events: readonly string[] }[]
    | undefined;
  /** @default "quorum" */
  readonly queueType?: QueueType | undefined;
}

/** Names at the broker under a prefix, those of the envelope included. */
export interface BrokerNames extends TopologyNames {
  /** The one policy, which holds what an operator may tune. */
  readonly limitsPolicy: string;
  /** An exchange without bindings; while it is there, so is what the broker has stored. */
  markerExchange(id: string): string;
}

/** Deliveries of one message before the broker itself dead-letters it; ours end long before. */
export const deliveryLimit = 50;

/**
 * Limit of a dead-letter queue. Every look into it by "Get messages" counts, and RabbitMQ 4 would
 * drop after 20; -1 destroys the message at the first requeue on 3.10.
 */
export const deadLetterDeliveryLimit = 1_000_000;

/**
 * The names under a prefix.
 *
 * @throws NameError for a prefix outside the rules of names
 */
export function names(prefix = "waybill"): BrokerNames {
  checkTopologyPrefix(prefix);
  return {
    ...topologyNames(prefix),
    limitsPolicy: `${prefix}.limits`,
    markerExchange: (id) => `${prefix}.marker.${id}`,
  };
}

function workArguments(type: QueueType, dlx: string, queue: string): TopologyQueue["arguments"] {
  const deadLettering = {
    "x-queue-type": type,
    "x-dead-letter-exchange": dlx,
    "x-dead-letter-routing-key": queue,
    "x-overflow": "reject-publish",
  };
  // Classic queues know neither at-least-once dead-lettering nor a delivery limit.
  if (type === "classic") return { ...deadLettering, "x-queue-version": 2 };
  return {
    ...deadLettering,
    "x-dead-letter-strategy": "at-least-once",
    "x-delivery-limit": deliveryLimit,
  };
}

function deadLetterArguments(type: QueueType): TopologyQueue["arguments"] {
  if (type === "classic") return { "x-queue-type": "classic", "x-queue-version": 2 };
  return { "x-queue-type": "quorum", "x-delivery-limit": deadLetterDeliveryLimit };
}

/**
 * The topology of these queues and subscriptions.
 *
 * @throws NameError for a bad name, or one name used both as a queue and as a subscription
 */
export function topologyOf(options: TopologyOptions): Topology {
  const prefix = options.prefix ?? "waybill";
  const type = options.queueType ?? "quorum";
  const at = names(prefix);

  const jobQueues = new Set(options.queues.map(checkQueueName));
  const subscriptions = new Map<string, Set<string>>();
  for (const { subscription, events } of options.subscriptions ?? []) {
    const name = checkQueueName(subscription);
    if (jobQueues.has(name)) {
      throw new NameError(
        `Cannot use "${name}" as a queue and as a subscription: both would be the queue ` +
          `"${at.queueName(name)}". Rename one of them.`,
      );
    }
    const wanted = subscriptions.get(name) ?? new Set<string>();
    for (const event of events) wanted.add(checkTypeName(event));
    subscriptions.set(name, wanted);
  }

  const queues: TopologyQueue[] = [];
  const bindings: TopologyBinding[] = [];
  const add = (queue: string, role: "work" | "subscription"): void => {
    // The dead-letter queue first: from the first message on there is a place to fail to.
    queues.push(
      {
        name: at.deadLetterQueueName(queue),
        queue,
        role: "deadLetter",
        arguments: deadLetterArguments(type),
      },
      {
        name: at.queueName(queue),
        queue,
        role,
        arguments: workArguments(type, at.dlxExchange, queue),
      },
    );
    bindings.push({
      exchange: at.dlxExchange,
      queue: at.deadLetterQueueName(queue),
      routingKey: queue,
    });
  };
  for (const queue of jobQueues) {
    add(queue, "work");
    bindings.push({ exchange: at.jobsExchange, queue: at.queueName(queue), routingKey: queue });
  }
  for (const [subscription, events] of subscriptions) {
    add(subscription, "subscription");
    // A copy of an event that a worker parked comes back to this subscription alone, as a job does.
    bindings.push({
      exchange: at.jobsExchange,
      queue: at.queueName(subscription),
      routingKey: subscription,
    });
    for (const event of events) {
      bindings.push({
        exchange: at.eventsExchange,
        queue: at.queueName(subscription),
        routingKey: event,
      });
    }
  }

  return {
    prefix,
    exchanges: [
      { name: at.jobsExchange, type: "topic" },
      { name: at.dlxExchange, type: "direct" },
      { name: at.eventsExchange, type: "topic" },
    ],
    queues,
    bindings,
  };
}
