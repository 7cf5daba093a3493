/**
 * A producer that is killed: transactions side by side, each with a business row and a job, until the
 * process dies. Says the id of each job whose COMMIT was answered.
 */

import { setTimeout as delay } from "node:timers/promises";
import { createOutbox, pgDatabase } from "@waybill/postgres";
import { Pool, type PoolClient } from "pg";
import { anyJob } from "../application.ts";

const sideBySide = 20;
const pool = new Pool({ connectionString: process.env["DATABASE_URL"], max: sideBySide });
const database = pgDatabase<PoolClient>(pool);
const outbox = createOutbox({ database });

async function produce(): Promise<never> {
  for (;;) {
    const id = await database.transaction(async (tx) => {
      const { jobId } = await outbox.enqueue(tx, anyJob, 1);
      await tx.query("insert into orders (note) values ($1)", [jobId]);
      // Most of them are between the writes and the COMMIT at any time.
      await delay(Math.random() * 40);
      return jobId;
    });
    console.log(`committed ${id}`);
  }
}

await Promise.all(Array.from({ length: sideBySide }, produce));
