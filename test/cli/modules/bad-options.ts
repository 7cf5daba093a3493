import type { Database } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";

/** Several problems at once. */
export const worker = createWorker({
  database: {} as Database<object>,
  databaseUrl: "mysql://localhost",
  broker: { url: "amqp://localhost" },
  queues: { emails: { concurrency: 0 } },
});
