import { z } from "zod";
import { defineJob } from "@waybill/core";

/** Counts a webhook event for its repository. */
export const indexWebhook = defineJob({
  name: "webhook.index",
  queue: "index",
  payload: z.object({
    deliveryId: z.uuid(),
    event: z.string(),
    repository: z.string(),
  }),
});

/** Passes a webhook event on to the customer's endpoint. */
export const deliverWebhook = defineJob({
  name: "webhook.deliver",
  queue: "deliver",
  payload: z.object({
    deliveryId: z.uuid(),
    event: z.string(),
    body: z.record(z.string(), z.json()),
  }),
  // Short, so that the demo ends soon. A real endpoint deserves hours: the defaults are 10 attempts
  // over about an hour and a half.
  retry: { maxAttempts: 4, initialDelayMs: 200, maxDelayMs: 1_000 },
  timeoutMs: 1_000,
});
