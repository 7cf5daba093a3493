/**
 * The customer's endpoint, which misbehaves as endpoints do: some requests are rate limited, some
 * fail, some never get an answer, and a few events are refused every time. What happens to which
 * event follows from SEED. It keeps a ledger of what it accepted, by job.
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { pool } from "./database.ts";
import { chance } from "../../../scripts/stage/chance.ts";
import { listen } from "./listen.ts";

const seed = Number(process.env["SEED"] ?? 1);

/** How often each job has asked. */
const requests = new Map<string, number>();

type Conduct = "accept" | "fail" | "limit" | "hang";

/** What the endpoint does with the nth request for a delivery. */
function conduct(deliveryId: string, nth: number): Conduct {
  const dice = chance(seed, "endpoint", deliveryId);
  if (dice < 0.008) return "fail";
  if (nth > 1) return "accept";
  if (dice < 0.05) return "fail";
  if (dice < 0.1) return "limit";
  if (dice < 0.115) return "hang";
  return "accept";
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const jobId = String(request.headers["idempotency-key"]);
  const deliveryId = String(request.headers["x-github-delivery"]);
  for await (const chunk of request) void chunk;
  const nth = (requests.get(jobId) ?? 0) + 1;
  requests.set(jobId, nth);

  await sleep(5 + 20 * chance(seed, "latency", deliveryId, nth));
  switch (conduct(deliveryId, nth)) {
    case "accept":
      await pool.query("insert into demo.accepted_delivery (job_id, delivery_id) values ($1, $2)", [
        jobId,
        deliveryId,
      ]);
      response.writeHead(200).end();
      return;
    case "fail":
      response.writeHead(500).end();
      return;
    case "limit":
      response.writeHead(429, { "retry-after": "1" }).end();
      return;
    case "hang":
      // The caller gives up, not we.
      return;
  }
}

await listen(
  createServer((request, response) => {
    // A caller that is killed in the middle of a request is no fault of this endpoint.
    answer(request, response).catch(() => response.destroy());
  }),
  () => pool.end(),
);
