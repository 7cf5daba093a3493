/** The jobs of the whole line's test; their payloads say how they end. */

import { defineJob } from "@waybill/core";
import { z } from "zod";

/** Queue of all of them. */
export const queue = "work";

const retry = { maxAttempts: 6, initialDelayMs: 20, maxDelayMs: 200 } as const;

/** A transactional job: fails so many times after its effect, then enqueues so many children. */
export const effect = defineJob({
  name: "effect",
  queue,
  payload: z.object({ failures: z.int(), children: z.int() }),
  retry,
});

/** A plain job: its effect is in a transaction of its own and may be there more than once. */
export const plain = defineJob({ name: "plain", queue, payload: z.object({}), retry });

/** A job that is dead-lettered in its first attempt. */
export const doomed = defineJob({ name: "doomed", queue, payload: z.object({}), retry });
