/**
 * A database and a model of it with the same workers: alive, dead, without their lock, gone.
 */

import { randomUUID } from "node:crypto";
import {
  createInboxStore,
  createRelayStore,
  type InboxStore,
  type RelayStore,
} from "@waybill/postgres";
import { type Dispatched, ModelJobs } from "../../model/model-jobs.ts";
import type { TestDatabase } from "../../support/index.ts";
import { addWorker } from "../../support/worker-row.ts";

/** Far enough from now that no test comes near. */
export const farMs = 3_600_000;

/** Workers of every kind, by their boot ids. */
export const workers = {
  alive: randomUUID(),
  other: randomUUID(),
  /** Its lease is over. */
  dead: randomUUID(),
  /** Its lease runs, its session lock has gone. */
  unlocked: randomUUID(),
  /** It has left no row. */
  gone: randomUUID(),
} as const;

/** One of the kinds of workers. */
export type WorkerName = keyof typeof workers;

/** A database with a relay's term and workers of every kind. */
export interface Server {
  readonly database: TestDatabase;
  readonly inbox: InboxStore;
  readonly relay: RelayStore;
  readonly epoch: string;
}

/** Prepares a migrated database. */
export async function prepareServer(database: TestDatabase): Promise<Server> {
  const relay = createRelayStore(database.pool);
  await relay.ensureRelay();
  const leases = { alive: farMs, other: farMs, unlocked: farMs, dead: -farMs } as const;
  for (const name of ["alive", "other", "unlocked", "dead"] as const) {
    await addWorker(database, name, {
      id: workers[name],
      lease_until: new Date(Date.now() + leases[name]),
      lock_key: name === "unlocked" ? 4_711 : null,
    });
  }
  return {
    database,
    inbox: createInboxStore(database.pool),
    relay,
    epoch: (await relay.takeTerm(randomUUID(), "relay", farMs)) ?? "",
  };
}

/** A model with the same workers. */
export function modelOf(write: (rows: readonly Dispatched[]) => void): ModelJobs {
  const model = new ModelJobs(write);
  for (const name of ["alive", "other"] as const) {
    model.workers.set(workers[name], { leaseUntil: farMs, isLocked: null });
  }
  model.workers.set(workers.unlocked, { leaseUntil: farMs, isLocked: false });
  model.workers.set(workers.dead, { leaseUntil: -farMs, isLocked: null });
  return model;
}
