import { BrokerUnavailableError, type Logger } from "@waybill/core";
import { applyTopology, type BrokerConnection, type Topology } from "@waybill/rabbitmq";
import type { TopologyMode } from "@waybill/rabbitmq";

/**
 * The broker gives up a silent connection after less than three heartbeats. That must not be later than
 * the end of the lease: the copies of a frozen worker's jobs would be given to that very worker, which
 * is a consumer until then. Below two seconds a loaded broker would be taken for dead.
 */
export const brokerHeartbeatSeconds = (heartbeatMs: number): number =>
  Math.min(10, Math.max(2, Math.floor(heartbeatMs / 1_000)));

/**
 * Waits for the first connection.
 *
 * @throws BrokerUnavailableError where waiting cannot help (login, virtual host); the signal's reason
 */
export async function waitForBroker(
  connection: BrokerConnection,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  try {
    await connection.tryReady(signal);
    return;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof BrokerUnavailableError) || error.needsOperator) throw error;
    logger.warn({ err: error }, "waiting for the broker");
  }
  await connection.ready(signal);
}

/**
 * Declares the worker's exchanges and queues, or looks for them. What differs is logged, one line
 * an entity; the other queues are consumed all the same.
 *
 * @throws the signal's reason
 */
export async function prepareTopology(
  connection: BrokerConnection,
  topology: Topology,
  mode: TopologyMode,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await connection.ready(signal);
    try {
      const report = await applyTopology(connection, topology, mode);
      for (const { kind, name, status, message, differences } of report.results) {
        if (status === "ok" || status === "unknown") continue;
        logger.error({ kind, name, status, differences, detail: message }, "topology differs");
      }
      return;
    } catch (err) {
      // The connection was lost meanwhile; the next one is waited for.
      signal.throwIfAborted();
      logger.warn({ err }, "topology could not be prepared");
    }
  }
}
