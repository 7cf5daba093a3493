import { names } from "./topology.ts";
import type { DefinitionsUser } from "./definitions.ts";

const nothing = "^$";

/**
 * Broker users by least right, one for each part; their names begin with the prefix. None has a password
 * yet, so that none can log in before one is set (`rabbitmqctl change_password`).
 *
 * - `…-topology` declares exchanges, queues and bindings (`waybill topology apply`). RabbitMQ lets whoever may
 *   declare a queue that dead-letters read it and write to its dead-letter exchange too; jobs it cannot publish.
 * - `…-relay` publishes to Waybill's exchanges.
 * - `…-worker` consumes Waybill's queues, dead-letter queues left out.
 * - `…-monitor` looks through the management API (`waybill doctor`), and sees no message.
 */
export function leastRightUsers(prefix = "waybill"): readonly DefinitionsUser[] {
  const at = names(prefix);
  const quoted = prefix.replaceAll(".", "\\.");
  const ours = `^${quoted}\\.`;
  const exchanges = [at.jobsExchange, at.eventsExchange, at.dlxExchange]
    .map((name) => name.replaceAll(".", "\\."))
    .join("|");
  const user = (
    part: string,
    configure: string,
    write: string,
    read: string,
    tags: readonly string[] = [],
  ): DefinitionsUser => ({
    name: `${prefix}-${part}`,
    passwordHash: "",
    tags,
    permissions: { configure, write, read },
  });
  return [
    user("topology", ours, `${ours}(?!(?:jobs|events)$)`, ours),
    user("relay", nothing, `^(${exchanges})$`, nothing),
    user("worker", nothing, nothing, `^${quoted}\\.(?!.*\\.dlq$)`),
    user("monitor", nothing, nothing, nothing, ["monitoring"]),
  ];
}
