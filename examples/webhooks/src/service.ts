/**
 * The receiving service: stores each webhook event and, in the same transaction, the two jobs that
 * follow from it. Either all three are there afterwards or none of them.
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { z } from "zod";
import { createOutbox } from "@waybill/postgres";
import { database, pool } from "./database.ts";
import { deliverWebhook, indexWebhook } from "./jobs.ts";
import { listen } from "./listen.ts";

const outbox = createOutbox({ database });

const request = z.object({
  deliveryId: z.uuid(),
  event: z.string().min(1),
  /** The demo asks some requests to fail at the last moment. */
  failBeforeCommit: z.boolean(),
  body: z.record(z.string(), z.json()),
});

const subject = z.object({
  action: z.string().optional(),
  repository: z.object({ full_name: z.string() }).optional(),
});

interface Stored {
  readonly duplicate: boolean;
  readonly jobIds: readonly string[];
}

async function store(received: z.infer<typeof request>): Promise<Stored> {
  const { deliveryId, event, body } = received;
  const { action, repository } = subject.parse(body);
  const repositoryName = repository?.full_name ?? "(none)";
  // GitHub may send a delivery again; the key makes of it the same jobs, not two more.
  const options = { idempotencyKey: deliveryId };

  return await database.transaction(async (tx) => {
    await tx.query(
      `insert into webhook_event (delivery_id, event, action, repository, payload)
       values ($1, $2, $3, $4, $5)
       on conflict (delivery_id) do nothing`,
      [deliveryId, event, action, repositoryName, JSON.stringify(body)],
    );
    const index = { deliveryId, event, repository: repositoryName };
    const indexing = await outbox.enqueue(tx, indexWebhook, index, options);
    const delivering = await outbox.enqueue(
      tx,
      deliverWebhook,
      { deliveryId, event, body },
      options,
    );
    if (received.failBeforeCommit) throw new Error("asked to fail before the commit");
    return { duplicate: indexing.deduplicated, jobIds: [indexing.jobId, delivering.jobId] };
  });
}

async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const reply = (status: number, body: object): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  if (incoming.method !== "POST" || incoming.url !== "/webhooks") {
    reply(404, { error: "POST /webhooks" });
    return;
  }
  try {
    const received = request.safeParse({
      deliveryId: incoming.headers["x-github-delivery"],
      event: incoming.headers["x-github-event"],
      failBeforeCommit: incoming.headers["x-demo-fail"] === "before-commit",
      body: await json(incoming),
    });
    if (!received.success) reply(400, { error: z.prettifyError(received.error) });
    else reply(202, await store(received.data));
  } catch (error) {
    reply(500, { error: error instanceof Error ? error.message : String(error) });
  }
}

await listen(
  createServer((incoming, response) => void answer(incoming, response)),
  () => pool.end(),
);
