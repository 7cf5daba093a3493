/**
 * A producer of a run as a process of its own. It notes in a file what it is about to commit and what came of it:
 * `intent <batch> <ids>`, then `committed`, `rolled_back` or `unknown <batch>`.
 */

import { createOutbox, pgDatabase } from "@waybill/postgres";
import { openSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { setTimeout as delay } from "node:timers/promises";
import { DatabaseError, Pool, type PoolClient } from "pg";
import { randomFrom } from "../../scripts/stage/chance.ts";
import {
  call,
  type ChaosPayload,
  clash,
  doomed,
  keyCounts,
  type Kind,
  kinds,
  limited,
  noted,
  ordered,
  transfer,
} from "./jobs.ts";

const env = (name: string): string => process.env[name] ?? "";
const name = env("NAME");
const secret = env("SECRET");
const random = randomFrom(Number(env("SEED")));
const pool = new Pool({ connectionString: env("DATABASE_URL"), max: 2 });
pool.on("error", () => undefined);
// The error of a broken connection is told by the statement as well.
pool.on("connect", (client) => client.on("error", () => undefined));
const outbox = createOutbox({ database: pgDatabase<PoolClient>(pool) });
/** Written to synchronously, so that what has happened is there after a SIGKILL. */
const ledger = openSync(env("LEDGER"), "a");
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
flushCompileCache();

const note = (line: string): void => void writeSync(ledger, `${line}\n`);
const upTo = (most: number): number => Math.floor(random() * (most + 1));

/** Kinds with their parts of all jobs. */
const mix: readonly (readonly [Kind, number])[] = [
  ["transfer", 0.42],
  ["clash", 0.03],
  ["doomed", 0.03],
  ["call", 0.14],
  ["limited", 0.14],
  ["ordered", 0.14],
  ["noted", 0.1],
];

function someKind(): Kind {
  let left = random();
  for (const [kind, part] of mix) {
    left -= part;
    if (left < 0) return kind;
  }
  return "transfer";
}

function payloadOf(kind: Kind): ChaosPayload {
  const isSlow = random() < 0.1;
  return {
    ms: kind === "call" && isSlow ? 300 + upTo(1_200) : upTo(60),
    failures: kind === "clash" || random() < 0.08 ? 1 + upTo(1) : 0,
    children: kind === "transfer" && random() < 0.1 ? 1 + upTo(1) : 0,
    secret,
  };
}

/** Enqueues a job of a kind and writes its row of business. */
async function enqueueOne(tx: PoolClient, batch: string): Promise<string> {
  const kind = someKind();
  const payload = payloadOf(kind);
  let key: string | null = null;
  let keySeq: number | null = null;
  let jobId: string;
  if (kind === "noted") {
    ({ jobId } = await outbox.publish(tx, noted, payload, { headers: { note: secret } }));
  } else if (kind === "ordered") {
    key = `order-${upTo(keyCounts.ordered - 1)}`;
    const { rows } = await tx.query<{ seq: number }>(
      "insert into account values ($1, 1) on conflict (key) do update set seq = account.seq + 1 returning seq",
      [key],
    );
    keySeq = rows[0]?.seq ?? null;
    ({ jobId } = await outbox.enqueue(tx, ordered, payload, { orderingKey: key }));
  } else if (kind === "limited") {
    key = `tenant-${upTo(keyCounts.limited - 1)}`;
    ({ jobId } = await outbox.enqueue(tx, limited, payload, { concurrencyKey: key }));
  } else {
    const job = { transfer, clash, doomed, call }[kind];
    const delayMs = kind === "transfer" && random() < 0.15 ? 1 + upTo(5_000) : undefined;
    ({ jobId } = await outbox.enqueue(tx, job, payload, { delayMs, headers: { note: secret } }));
  }
  await tx.query(
    "insert into business select $1, queue, $2, $3, $4, $5 from unnest($6::text[]) as queue",
    [jobId, kind, batch, key, keySeq, [...kinds[kind].queues]],
  );
  return jobId;
}

/** Enqueues some jobs; a savepoint with more of them is rolled back now and then. */
async function write(tx: PoolClient, batch: string): Promise<readonly string[]> {
  const ids: string[] = [];
  const count = 1 + upTo(5);
  for (let n = 0; n < count; n += 1) ids.push(await enqueueOne(tx, batch));
  if (random() < 0.1) {
    await tx.query("savepoint inner_step");
    const inner = await enqueueOne(tx, batch);
    note(`undone ${batch} ${inner}`);
    await tx.query("rollback to savepoint inner_step");
  }
  return ids;
}

/** PostgreSQL has said no; anything else at COMMIT may hide a commit. */
function isRefusal(error: unknown): boolean {
  return error instanceof DatabaseError && !/^(57|58|08|XX)/.test(error.code ?? "");
}

/** One transaction; resolves to the jobs that it has committed. */
async function transaction(batch: string): Promise<number> {
  const client = await pool.connect();
  let isBroken = true;
  try {
    await client.query("BEGIN");
    const ids = await write(client, batch);
    if (random() < 0.3) await delay(upTo(40));
    note(`intent ${batch} ${ids.join(",")}`);
    if (random() < 0.1) {
      await client.query("ROLLBACK");
      note(`rolled_back ${batch}`);
      isBroken = false;
      return 0;
    }
    try {
      await client.query("COMMIT");
    } catch (error) {
      note(`${isRefusal(error) ? "rolled_back" : "unknown"} ${batch}`);
      throw error;
    }
    note(`committed ${batch}`);
    isBroken = false;
    return ids.length;
  } finally {
    client.release(isBroken);
  }
}

let batches = 0;
let isReady = false;
while (!stop.signal.aborted) {
  const startedAt = performance.now();
  try {
    const { rows } = await pool.query<{ rate: number }>("select rate from pace");
    if (!isReady) process.stdout.write("ready\n");
    isReady = true;
    const rate = rows[0]?.rate ?? 0;
    if (rate === 0) {
      await delay(200);
      continue;
    }
    const jobs = await transaction(`${name}.${(batches += 1)}`);
    const pauseMs = (Math.max(1, jobs) / rate) * 1_000 - (performance.now() - startedAt);
    if (pauseMs > 0) await delay(pauseMs);
  } catch (error) {
    // The database is away, or the way to it.
    process.stdout.write(
      `${JSON.stringify({ batch: `${name}.${batches}`, err: String(error) })}\n`,
    );
    await delay(100 + upTo(200));
  }
}
await pool.end();
