/** The kinds of jobs of a run; their payloads say how they end. */

import { defineEvent, defineJob, defineQueue } from "@waybill/core";
import { z } from "zod";

/** Attempts that a job of a run may take: many, since every fault may spend one. */
export const maxAttempts = 12;

/** Of every job and subscription. */
export const retry = { maxAttempts, initialDelayMs: 50, maxDelayMs: 1_000 } as const;

const payload = z.object({
  /** How long the handler takes, in milliseconds. */
  ms: z.int(),
  /** Attempts that fail after their effect was written. */
  failures: z.int(),
  /** Jobs that it enqueues in its transaction. */
  children: z.int(),
  /** What must be found nowhere but in payloads. */
  secret: z.string(),
});

/** What a job says. */
export type ChaosPayload = z.infer<typeof payload>;

/** Its effect, its children and its end are one transaction. */
export const transfer = defineJob({ name: "chaos.transfer", queue: "ledger", payload, retry });

/** Breaks a unique constraint in its first attempts; what the database then says quotes the secret. */
export const clash = defineJob({ name: "chaos.clash", queue: "ledger", payload, retry });

/** Is dead-lettered in its first attempt, after its effect was written. */
export const doomed = defineJob({ name: "chaos.doomed", queue: "ledger", payload, retry });

/** A plain handler: writes a line into a file, at least once. */
export const call = defineJob({ name: "chaos.call", queue: "calls", payload, retry });

/** In a governed queue with limits. */
export const limited = defineJob({ name: "chaos.limited", queue: "limited", payload, retry });

/** In a governed queue with strict order per ordering key. */
export const ordered = defineJob({ name: "chaos.ordered", queue: "ordered", payload, retry });

/** An event with two subscriptions. */
export const noted = defineEvent({ name: "chaos.noted", payload });

/** The subscriptions of {@link noted}. */
export const subscriptions = ["noted-a", "noted-b"] as const;

/** Jobs of the queue at a time, and of each of its keys. */
export const limits = { queue: 8, key: 2 } as const;

/** Queues with their concurrency in each worker. */
export const queues = {
  ledger: { concurrency: 6 },
  calls: { concurrency: 5 },
  limited: {
    concurrency: 6,
    define: defineQueue({
      name: "limited",
      concurrency: limits.queue,
      keys: { concurrency: limits.key },
    }),
  },
  ordered: { concurrency: 4, define: defineQueue({ name: "ordered", order: {} }) },
  "noted-a": { concurrency: 3 },
  "noted-b": { concurrency: 3 },
} as const;

/** Handlers that may hold a connection of the pool at a time, and one for whoever is late. */
export const poolSize: number =
  Object.values(queues).reduce((sum, { concurrency }) => sum + concurrency, 0) + 1;

/** Ordering keys, and concurrency keys. */
export const keyCounts = { ordered: 12, limited: 6 } as const;

/** Events are one row for each subscription. */
export const kinds = {
  transfer: { queues: ["ledger"], ends: "succeeded" },
  clash: { queues: ["ledger"], ends: "succeeded" },
  doomed: { queues: ["ledger"], ends: "failed" },
  call: { queues: ["calls"], ends: "succeeded" },
  limited: { queues: ["limited"], ends: "succeeded" },
  ordered: { queues: ["ordered"], ends: "succeeded" },
  noted: { queues: subscriptions, ends: "succeeded" },
} as const satisfies Record<string, { queues: readonly string[]; ends: "succeeded" | "failed" }>;

/** Name of a kind, as the ledger has it. */
export type Kind = keyof typeof kinds;
