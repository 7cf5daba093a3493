/** A worker whose handler takes as long as the test holds the advisory lock 1. */
import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import type { WorkerEnvironment } from "@waybill/cli";
import { createWorker, type Worker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { z } from "zod";

const sendWelcome = defineJob({
  name: "email.welcome",
  queue: "emails",
  payload: z.object({ to: z.string() }),
});

export const worker = (environment: WorkerEnvironment): Worker<PoolClient> => {
  const database = pgDatabase(new Pool({ connectionString: environment.databaseUrl }));
  const emails = createWorker({ ...environment, database, queues: { emails: { concurrency: 1 } } });
  emails.handle(sendWelcome, async (job) => {
    console.log(`handling ${job.payload.to}`);
    await job.transaction(async (tx) => {
      await tx.query("select pg_advisory_xact_lock(1)");
      await tx.query("insert into sent (email) values ($1)", [job.payload.to]);
    });
  });
  return emails;
};
