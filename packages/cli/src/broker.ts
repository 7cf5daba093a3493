import type { Logger } from "@waybill/core";
import {
  type BrokerConnection,
  createBrokerConnection,
  createManagementClient,
  type ManagementClient,
} from "@waybill/rabbitmq";

/**
 * Connects to the broker; every host of the URL is tried once.
 *
 * @throws BrokerUnavailableError that says what is wrong and what to do, within 10 seconds a host
 */
export async function connectBroker(
  url: string,
  logger: Logger,
  signal?: AbortSignal,
): Promise<BrokerConnection> {
  const connection = createBrokerConnection({
    url,
    name: `waybill command #${process.pid}`,
    logger,
  });
  try {
    await connection.tryReady(signal);
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** The virtual host that a broker's URL names. */
export function vhostOf(url: string): string {
  const path = new URL(url).pathname;
  return path.length > 1 ? decodeURIComponent(path.slice(1)) : "/";
}

/** A client of the management API; undefined where its URL is not known. */
export function managementOf(url: string | undefined): ManagementClient | undefined {
  return url === undefined ? undefined : createManagementClient({ url });
}
