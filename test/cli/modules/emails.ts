/** A worker module as an application writes it: a function of the environment. */
import type { WorkerEnvironment } from "@waybill/cli";
import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
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
  const emails = createWorker({ ...environment, database, queues: { emails: { concurrency: 2 } } });
  emails.handleInTransaction(sendWelcome, async (job, tx) => {
    await tx.query("insert into sent (email) values ($1)", [job.payload.to]);
  });
  return emails;
};
