/** A relay of a run as a process of its own. */

import { createRelay } from "@waybill/relay";
import { flushCompileCache } from "node:module";
import { pino } from "pino";
import { failpointOf } from "./failpoint.ts";

const env = (name: string): string => process.env[name] ?? "";
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
flushCompileCache();

/** The relay's points are passed within its own steps: a process that hangs there hangs whole. */
const standStill = (): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);

const relay = createRelay(
  {
    databaseUrl: env("DATABASE_URL"),
    broker: { url: env("RABBITMQ_URL") },
    name: env("NAME"),
    logger: pino({ level: env("LOG_LEVEL") }),
  },
  { failpoint: failpointOf(process.env["FAILPOINT"], standStill) },
);
await relay.run({ signal: stop.signal });
