import { setTimeout as delay } from "node:timers/promises";
import type { InboxStore, JobRef } from "@waybill/postgres";
import type { DatabaseGate } from "./database-gate.ts";
import { databaseErrorKind } from "./own-database.ts";

/** Milliseconds until a read that lost its time is tried again. */
const againMs = 250;

/**
 * Reads a job's newest checkpoint, waiting for the database while it is down: to begin without it
 * would do work twice, and to fail would spend an attempt on an outage.
 *
 * @throws the reason of the worker's end
 */
export async function readCheckpoint(
  store: Pick<InboxStore, "checkpoint">,
  gate: DatabaseGate,
  job: JobRef,
): Promise<string | undefined> {
  for (;;) {
    await gate.whenOpen();
    try {
      return await store.checkpoint(job);
    } catch (error) {
      const kind = databaseErrorKind(error);
      if (kind === "data") throw error;
      if (kind === "down") gate.close(error);
      // Somebody holds a lock on the table, or the server is too busy to answer in time.
      else await delay(againMs);
    }
  }
}
