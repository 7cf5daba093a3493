/**
 * A relay or a worker as a process of its own that meets one fault at one step, once. Its settings come
 * as JSON; it says "ready" when it runs, "reached" when it meets the fault, and "thawed" when it goes
 * on after a freeze.
 */

import { writeSync } from "node:fs";
import { pgDatabase } from "@waybill/postgres";
import { createRelay } from "@waybill/relay";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { testLogger } from "../../worker/support/app-parts.ts";
import { handleAll, holdMs, queues } from "./jobs.ts";

/** What happens at a step: the hook throws, the process freezes, the process is killed. */
export type Action = "throw" | "hang" | "exit";

/** Settings of a victim. */
export interface VictimSettings {
  readonly databaseUrl: string;
  readonly broker: { readonly url: string; readonly prefix: string };
  /** One of the lists of failpoints. */
  readonly point: string;
  readonly action: Action;
}

const settings = JSON.parse(process.argv[2] ?? "") as VictimSettings;
const { databaseUrl, broker, point, action } = settings;
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());

let isReached = false;

function failpoint(name: string): void {
  if (name !== point || isReached) return;
  isReached = true;
  // Written at once: the process may not get to it any more.
  writeSync(1, `reached ${name}\n`);
  if (action === "throw") throw new Error(`thrown at ${name}`);
  process.kill(process.pid, action === "hang" ? "SIGSTOP" : "SIGKILL");
  console.log("thawed");
}

if (point.startsWith("relay.")) {
  const options = { databaseUrl, broker, logger: testLogger, name: "victim" };
  const limits = { batchSize: 10, leaseMs: 1_000, idlePollMs: 50 };
  const running = createRelay({ ...options, ...limits }, { failpoint }).run({
    signal: stop.signal,
  });
  console.log("ready");
  await running;
} else {
  const pool = new Pool({
    connectionString: databaseUrl,
    max: 12,
    // One that freezes with a transaction open would keep its locks.
    idle_in_transaction_session_timeout: 5_000,
  });
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  const worker = createWorker<PoolClient>(
    {
      database: pgDatabase(pool),
      databaseUrl,
      broker,
      queues,
      logger: testLogger,
      name: "victim",
      leaseMs: 1_000,
      holdMs,
    },
    { failpoint },
  );
  handleAll(worker);
  const running = worker.run({ signal: stop.signal });
  console.log("ready");
  await running;
  await pool.end();
}
