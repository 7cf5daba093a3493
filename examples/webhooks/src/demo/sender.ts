import type { Pool } from "pg";
import type { Delivery } from "./deliveries.ts";

/** Sends the deliveries of a run to the service. */
export interface Sender {
  readonly total: number;
  readonly sent: number;
  /** Sends on until this share (0 to 1) of all is answered. */
  sendUntil(share: number): Promise<void>;
}

/** Requests at a time. */
const concurrency = 8;

/** What the service said to a request; it is kept in SQL, where the ledger compares it with the data. */
async function send(url: string, delivery: Delivery, signal: AbortSignal): Promise<string> {
  const response = await fetch(`${url}/webhooks`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-github-event": delivery.event,
      "x-github-delivery": delivery.deliveryId,
      ...(delivery.rollBack ? { "x-demo-fail": "before-commit" } : {}),
    },
    body: delivery.body,
    signal,
  });
  const answer = (await response.json()) as {
    readonly duplicate?: boolean;
    readonly error?: string;
  };
  if (response.status === 202) return answer.duplicate === true ? "duplicate" : "stored";
  if (delivery.rollBack && response.status === 500) return "rolled back";
  throw new Error(
    `The service answered ${response.status} to ${delivery.event} ${delivery.deliveryId}: ${answer.error}`,
  );
}

/** A sender that has sent nothing yet. */
export function createSender(
  url: string,
  plan: readonly Delivery[],
  pool: Pool,
  signal: AbortSignal,
): Sender {
  let next = 0;
  let sent = 0;

  async function sendSome(end: number): Promise<void> {
    for (let delivery = plan[next]; next < end && delivery !== undefined; delivery = plan[next]) {
      next += 1;
      const answer = await send(url, delivery, signal);
      await pool.query("insert into demo.answered_delivery (delivery_id, answer) values ($1, $2)", [
        delivery.deliveryId,
        answer,
      ]);
      sent += 1;
    }
  }

  return {
    total: plan.length,
    get sent() {
      return sent;
    },
    async sendUntil(share) {
      const end = Math.ceil(plan.length * share);
      await Promise.all(Array.from({ length: concurrency }, () => sendSome(end)));
    },
  };
}
