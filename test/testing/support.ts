import type { PoolClient } from "pg";
import { defineEvent, defineJob } from "@waybill/core";
import {
  createJobs,
  createOutbox,
  type Database,
  type Jobs,
  type Outbox,
  pgDatabase,
} from "@waybill/postgres";
import { createWorker, type Worker } from "@waybill/worker";
import { z } from "zod";
import { createMigratedDatabase, type TestDatabase } from "../support/index.ts";

export const sendWelcome = defineJob({
  name: "email.welcome",
  queue: "emails",
  payload: z.object({
    to: z.string(),
    at: z.iso
      .datetime()
      .transform((text) => new Date(text))
      .optional(),
  }),
  result: z.object({ sent: z.boolean() }),
  retry: { maxAttempts: 3 },
});

export const auditMail = defineJob({
  name: "email.audit",
  queue: "audit",
  payload: z.object({ to: z.string() }),
});

export const customerCreated = defineEvent({
  name: "customer.created",
  payload: z.object({ id: z.number() }),
});

/** A migrated database and what an application makes of it. */
export interface Application extends AsyncDisposable {
  readonly test: TestDatabase;
  readonly database: Database<PoolClient>;
  readonly outbox: Outbox<PoolClient>;
  readonly jobs: Jobs<PoolClient>;
  /** A worker that is never run: it needs no broker. */
  createWorker(): Worker<PoolClient>;
  /** Runs `work` in a transaction that is rolled back, as a test of an application does. */
  inTest<T>(work: (tx: PoolClient) => Promise<T>): Promise<T>;
}

class RolledBack extends Error {}

export async function startApplication(): Promise<Application> {
  const test = await createMigratedDatabase();
  await test.pool.query("create table sent (email text, job_id uuid)");
  const database = pgDatabase(test.pool);
  return {
    test,
    database,
    outbox: createOutbox({ database }),
    jobs: createJobs({ database }),
    createWorker: () =>
      createWorker({
        database,
        databaseUrl: test.url,
        broker: { url: "amqp://127.0.0.1:1" },
        queues: { emails: { concurrency: 1 }, audit: { concurrency: 1 } },
      }),
    async inTest(work) {
      const outcome: { value?: Awaited<ReturnType<typeof work>> } = {};
      await database
        .transaction(async (tx) => {
          outcome.value = await work(tx);
          throw new RolledBack();
        })
        .catch((error: unknown) => {
          if (!(error instanceof RolledBack)) throw error;
        });
      return outcome.value as Awaited<ReturnType<typeof work>>;
    },
    [Symbol.asyncDispose]: () => test[Symbol.asyncDispose](),
  };
}
