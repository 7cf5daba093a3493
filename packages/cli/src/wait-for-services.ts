/**
 * What a daemon does before it starts: reach both servers and find the schema. Waits where waiting
 * helps (a server that starts, a migration that runs elsewhere), and ends with the reason where only
 * an operator can help.
 */

import { setTimeout as delay } from "node:timers/promises";
import {
  type BrokerUnavailableError,
  type Logger,
  SchemaVersionError,
  silentLogger,
  WaybillError,
} from "@waybill/core";
import { requireSchemaVersion } from "@waybill/postgres";
import { connectBroker } from "./broker.ts";
import { diagnoseDatabase } from "./database-errors.ts";
import { withDatabase } from "./database.ts";

/** Options of {@link waitForServices}. */
export interface WaitForServicesOptions {
  readonly databaseUrl: string;
  readonly rabbitmqUrl: string;
  readonly schema: string;
  /** False: the first failure is final. */
  readonly wait: boolean;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const firstDelayMs = 250;
const maxDelayMs = 5_000;
/** The same reason is logged again after this time, so that a waiting daemon is never silent. */
const repeatMs = 30_000;

/** True where the daemon should try again by itself. */
function waitingHelps(error: unknown, databaseUrl: string): boolean {
  if (error instanceof SchemaVersionError) return error.actual < error.expected;
  if (WaybillError.is(error) && error.code === "WAYBILL_BROKER_UNAVAILABLE") {
    return !(error as BrokerUnavailableError).needsOperator;
  }
  const cause = WaybillError.is(error) ? error.cause : error;
  return diagnoseDatabase(cause, databaseUrl)?.waitingHelps ?? false;
}

async function probe(options: WaitForServicesOptions): Promise<void> {
  await withDatabase(options.databaseUrl, (client) => requireSchemaVersion(client, options.schema));
  // The probe's connection is no news: its failure is, and that is logged below.
  const broker = await connectBroker(options.rabbitmqUrl, silentLogger, options.signal);
  await broker.close();
}

/**
 * Resolves to true once both servers and the schema are there, to false when stopped meanwhile.
 *
 * @throws the reason where waiting cannot help, or where `wait` is false
 */
export async function waitForServices(options: WaitForServicesOptions): Promise<boolean> {
  const { logger, signal } = options;
  let reported = "";
  let reportedAt = 0;
  for (let delayMs = firstDelayMs; !signal.aborted; delayMs = Math.min(maxDelayMs, delayMs * 2)) {
    try {
      await probe(options);
      if (reported !== "") logger.info({}, "servers and schema are there");
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (!options.wait || !waitingHelps(error, options.databaseUrl)) throw error;
      const reason = (error as Error).message;
      if (reason !== reported || performance.now() - reportedAt > repeatMs) {
        logger.warn({ reason }, "waiting");
        [reported, reportedAt] = [reason, performance.now()];
      }
    }
    await delay(delayMs, undefined, { signal }).catch(() => undefined);
  }
  return false;
}
