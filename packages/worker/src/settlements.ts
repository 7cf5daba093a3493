/**
 * Outcomes on their way into the database: gathered for 2 ms, one statement a kind, and safe to
 * send twice. Each answer says whether the job was still this attempt's.
 */

import {
  type CompletedJob,
  type FailureRecord,
  type IdleDelivery,
  type InboxStore,
  type JobOutcome,
  type JobRef,
  type OwnedJob,
  type ParkRequest,
} from "@waybill/postgres";
import type { Envelope, JobState } from "@waybill/core";
import { Batcher } from "./batcher.ts";
import type { DatabaseGate } from "./database-gate.ts";
import type { Internals } from "./internals.ts";
import { databaseErrorKind } from "./own-database.ts";

/** Milliseconds that an outcome waits for company. */
const flushMs = 2;
/** Outcomes of one statement. */
const batchMax = 500;

/** State that the job is in by this attempt's doing, or `lost`: another attempt owns it. */
export type Settled = JobState | "lost";

/** A completion. */
export type Completion = CompletedJob;
/** A job to hand back, with the dispatch of its delivery. */
export type Release = OwnedJob & { readonly dispatch: number };

/** Identity of a job within the worker. */
export function keyOf({ queue, id }: JobRef): string {
  return `${queue}\n${id}`;
}

/** See the head of the file. */
export interface Settlements {
  /** Ends a job as succeeded. */
  complete(job: Completion): Promise<Settled>;
  /** Records a failed attempt: `retry_waiting`, `failed` or `cancelled`. */
  fail(record: FailureRecord): Promise<Settled>;
  /** Hands a job back without spending an attempt; `retry_waiting` if it worked. */
  release(job: Release): Promise<Settled>;
  /** Puts a job of a governed queue back to the backlog before it starts; `retry_waiting` if it worked. */
  putBack(job: OwnedJob): Promise<Settled>;
  /** Gives back the slot of a delivery that runs nothing. */
  freeSlot(delivery: IdleDelivery): Promise<void>;
  /** Ends a job as cancelled, after somebody asked for it. */
  cancel(job: OwnedJob): Promise<Settled>;
  /** Lets a job go on without its delivery; false: it is not ours any more. */
  hold(job: OwnedJob & { readonly envelope: Envelope }): Promise<boolean>;
  /** False: it was parked for longer than its window. */
  park(request: ParkRequest): Promise<boolean>;
}

/**
 * States of the jobs, given the rows that a statement has changed. A job without a row may have
 * been settled by the same statement before, whose answer was lost: then its token is still ours.
 */
async function settledStates(
  store: InboxStore,
  jobs: readonly OwnedJob[],
  changed: ReadonlyMap<string, JobState>,
): Promise<readonly Settled[]> {
  const missing = jobs.filter((job) => !changed.has(keyOf(job)));
  const found = new Map<string, JobOutcome>();
  if (missing.length > 0) {
    for (const outcome of await store.outcomes(missing)) found.set(keyOf(outcome), outcome);
  }
  return jobs.map((job) => {
    const state = changed.get(keyOf(job));
    if (state !== undefined) return state;
    const outcome = found.get(keyOf(job));
    return outcome === undefined || outcome.token !== job.token || outcome.state === "running"
      ? "lost"
      : outcome.state;
  });
}

const allIn = (rows: readonly JobRef[], state: JobState): ReadonlyMap<string, JobState> =>
  new Map(rows.map((row) => [keyOf(row), state]));

/** What is left of an envelope that the database refuses: its identity, and the bytes. */
export function plainEnvelope(envelope: Envelope): Envelope {
  const { payload, payloadBase64, type } = envelope;
  return {
    ...envelope,
    type: type.slice(0, 200) || "unknown",
    payload: payloadBase64 ? payload : Buffer.from(payload, "utf8").toString("base64"),
    payloadBase64: true,
    headers: {},
    orderingKey: null,
    correlationId: null,
    priority: null,
  };
}

const placeOf = (ref: JobRef & { readonly dispatch: number }): string =>
  `${keyOf(ref)}\n${ref.dispatch}`;

/** Creates the batchers; they stop with the gate. */
export function createSettlements(
  store: InboxStore,
  gate: DatabaseGate,
  internals: Internals,
): Settlements {
  const { random, failpoint } = internals;
  const common = { delayMs: flushMs, batchMax, gate, random };
  const completions = new Batcher<Completion, Settled>({
    ...common,
    flush: async (jobs) =>
      await settledStates(store, jobs, allIn(await store.complete(jobs), "succeeded")),
  });
  const failures = new Batcher<FailureRecord, Settled>({
    ...common,
    // The envelopes travel with them.
    batchMax: 50,
    flush: async (records) => {
      const rows = await store.fail(records);
      return await settledStates(
        store,
        records,
        new Map(rows.map((row) => [keyOf(row), row.state])),
      );
    },
  });
  const releases = new Batcher<Release, Settled>({
    ...common,
    flush: async (jobs) =>
      await settledStates(store, jobs, allIn(await store.release(jobs), "retry_waiting")),
  });
  const returns = new Batcher<OwnedJob, Settled>({
    ...common,
    flush: async (jobs) =>
      await settledStates(store, jobs, allIn(await store.putBack(jobs), "retry_waiting")),
  });
  const slots = new Batcher<IdleDelivery, void>({
    ...common,
    flush: async (deliveries) => {
      await store.freeSlots(deliveries);
      return deliveries.map(() => undefined);
    },
  });
  const cancellations = new Batcher<OwnedJob, Settled>({
    ...common,
    flush: async (jobs) =>
      await settledStates(store, jobs, allIn(await store.cancel(jobs), "cancelled")),
  });
  const holds = new Batcher<OwnedJob & { readonly envelope: Envelope }, boolean>({
    ...common,
    batchMax: 50,
    flush: async (jobs) => {
      const held = new Set((await store.hold(jobs)).map(keyOf));
      await failpoint("worker.afterLease");
      return jobs.map((job) => held.has(keyOf(job)));
    },
  });
  const parking = new Batcher<ParkRequest, boolean>({
    ...common,
    batchMax: 50,
    flush: async (requests) => {
      const parked = new Set((await store.park(requests)).map(placeOf));
      await failpoint("worker.afterPark");
      return requests.map(({ envelope }) => parked.has(placeOf(envelope)));
    },
  });
  return {
    complete: (job) => completions.add(job),
    async fail(record) {
      try {
        return await failures.add(record);
      } catch (error) {
        if (databaseErrorKind(error) !== "data") throw error;
        return await failures.add({ ...record, envelope: plainEnvelope(record.envelope) });
      }
    },
    release: (job) => releases.add(job),
    putBack: (job) => returns.add(job),
    freeSlot: ({ id, queue, dispatch, parked }) => slots.add({ id, queue, dispatch, parked }),
    cancel: (job) => cancellations.add(job),
    async hold(job) {
      try {
        return await holds.add(job);
      } catch (error) {
        if (databaseErrorKind(error) !== "data") throw error;
        return await holds.add({ ...job, envelope: plainEnvelope(job.envelope) });
      }
    },
    park: (request) => parking.add(request),
  };
}
