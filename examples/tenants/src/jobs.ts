import { defineDependency, defineJob, defineQueue } from "@waybill/core";
import { z } from "zod";

/** The provider that invoices are charged at. Its breaker opens for the whole fleet. */
export const paymentsApi = defineDependency({
  name: "payments-api",
  failureRate: 0.3,
  minimum: 5,
  windowMs: 1_000,
  // Short, so that the demo ends soon. A real provider deserves the default of 30 seconds.
  openMs: 1_500,
});

/** One queue for all tenants; what one of them may take depends on the tier that it is put into. */
export const billing = defineQueue({
  name: "billing",
  // Over all workers: as much as the database behind it bears.
  concurrency: 14,
  keys: {
    concurrency: 6,
    tiers: {
      team: { concurrency: 8, weight: 2 },
      enterprise: { concurrency: 12, weight: 4 },
    },
  },
  types: { "invoice.charge": { concurrency: 4 } },
  // The retry of a posting blocks its account: later ones wait for it.
  order: {},
});

/** Renders a statement: the mass of the work, and nothing but work. */
export const renderStatement = defineJob({
  name: "statement.render",
  queue: billing.name,
  payload: z.object({ statement: z.int(), workMs: z.int() }),
});

/** Charges an invoice at the provider. Waits, and spends no attempt, while that one is down. */
export const chargeInvoice = defineJob({
  name: "invoice.charge",
  queue: billing.name,
  payload: z.object({ invoice: z.int() }),
  retry: { maxAttempts: 8, initialDelayMs: 300, maxDelayMs: 1_000 },
  dependsOn: [paymentsApi.name],
});

/** Posts an entry to an account, one after the other: each is enqueued with its account as ordering key. */
export const postEntry = defineJob({
  name: "account.post",
  queue: billing.name,
  payload: z.object({ account: z.string(), entry: z.int(), failsFirst: z.boolean() }),
  retry: { initialDelayMs: 100, maxDelayMs: 200 },
});
