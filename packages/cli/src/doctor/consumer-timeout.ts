/**
 * The broker's limit for a delivery that is not acked, against the time for which workers hold one.
 * Past it the broker ends the consumer or its channel, and every delivery there comes again.
 */

import { type BrokerCapabilities, type ManagementQueue, names } from "@waybill/rabbitmq";
import { formatDuration } from "../duration.ts";
import { type Finding, fine, notice, problem } from "./finding.ts";
import type { DeliveryHold } from "./worker-checks.ts";

/** RabbitMQ's own limit, where rabbitmq.conf does not set another; that file cannot be seen. */
const brokerDefaultMs = 1_800_000;

const limit = (value: unknown): number =>
  typeof value === "number" && value > 0 ? value : Number.POSITIVE_INFINITY;

/**
 * The limit that a queue has by its argument or its policy; of two the lower one. Undefined where
 * neither sets one, and for brokers that take no notice of them.
 */
export function consumerTimeoutOf(
  queue: ManagementQueue,
  capabilities: BrokerCapabilities | undefined,
): number | undefined {
  if (capabilities?.consumerTimeoutPolicy !== true) return undefined;
  const ms = Math.min(
    limit(queue.arguments["x-consumer-timeout"]),
    limit(queue.effective_policy_definition?.["consumer-timeout"]),
  );
  return Number.isFinite(ms) ? ms : undefined;
}

/** Options of {@link checkHolds}. */
export interface HoldChecks {
  readonly holds: readonly DeliveryHold[];
  /** Prefix of our queues at the broker. */
  readonly prefix: string;
  readonly queues: readonly ManagementQueue[];
  readonly capabilities: BrokerCapabilities | undefined;
}

/** Workers that hold deliveries longer than the broker waits for their ack. */
export function checkHolds(checks: HoldChecks): readonly Finding[] {
  const { holds, queues, capabilities } = checks;
  const at = names(checks.prefix);
  const findings = holds.flatMap(({ worker, queues: consumed, holdMs }) =>
    consumed.flatMap((queue): Finding[] => {
      const found = queues.find(({ name }) => name === at.queueName(queue));
      const visibleMs = found === undefined ? undefined : consumerTimeoutOf(found, capabilities);
      const holding = `${worker} holds deliveries of ${queue} for ${formatDuration(holdMs)}`;
      if (visibleMs !== undefined) {
        if (holdMs < visibleMs) return [];
        const message = `${holding}, and the broker waits ${formatDuration(visibleMs)} for an ack: longer jobs lose their delivery`;
        const remedy = `lower the worker's consumerTimeoutMs to ${visibleMs}, or raise x-consumer-timeout or the policy's consumer-timeout`;
        return [problem("consumer timeout", message, remedy)];
      }
      if (holdMs < brokerDefaultMs) return [];
      const message = `${holding}, and RabbitMQ waits ${formatDuration(brokerDefaultMs)} for an ack unless rabbitmq.conf says otherwise`;
      return [notice("consumer timeout", message, "see that consumer_timeout there is longer")];
    }),
  );
  if (findings.length > 0 || holds.length === 0) return findings;
  return [fine("consumer timeout", "workers ack before the broker's limit, as far as it shows")];
}
