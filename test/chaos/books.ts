/** Brings the files of producers and workers into the database, and asks the questions. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Pool } from "pg";
import { questions, type Fault } from "./questions.ts";
import type { Runs } from "./run-log.ts";

/** What is wrong with how many jobs. */
export interface Finding {
  readonly what: string;
  readonly fault: Fault;
  readonly count: number;
  /** Some of the jobs, by their ids. */
  readonly jobs: readonly string[];
}

const chunk = 5_000;
/** Jobs of a finding whose history is told. */
const shown = 3;

/** What the producers noted. */
interface Notes {
  readonly intents: readonly (readonly [batch: string, id: string])[];
  /** `none` where the producer was killed before it knew. */
  readonly outcomes: ReadonlyMap<string, string>;
}

function readNotes(directory: string): Notes {
  const intents: [string, string][] = [];
  const outcomes = new Map<string, string>();
  for (const file of readdirSync(directory).filter((name) => name.endsWith(".ledger"))) {
    // What comes after the last end of a line is a line that was cut.
    const lines = readFileSync(join(directory, file), "utf8").split("\n").slice(0, -1);
    for (const line of lines) {
      const [word = "", batch = "", ids = ""] = line.split(" ");
      if (word === "intent" || word === "undone") {
        // What a savepoint took back was rolled back, whatever became of its transaction.
        const name = word === "intent" ? batch : `${batch}.undone`;
        for (const id of ids.split(",")) intents.push([name, id]);
        outcomes.set(name, word === "intent" ? "none" : "rolled_back");
      } else {
        outcomes.set(batch, word);
      }
    }
  }
  return { intents, outcomes };
}

async function insertPairs(
  pool: Pool,
  sql: string,
  pairs: readonly (readonly [string, string | number])[],
): Promise<void> {
  for (let from = 0; from < pairs.length; from += chunk) {
    const some = pairs.slice(from, from + chunk);
    await pool.query(sql, [some.map(([first]) => first), some.map(([, second]) => second)]);
  }
}

/** Makes the tables of what the files say. */
export async function loadFiles(pool: Pool, directory: string, runs: Runs): Promise<void> {
  await pool.query(
    `create table intent (batch text not null, job_id uuid not null);
     create table batch (batch text primary key, outcome text not null);
     create table called (job_id uuid not null, times integer not null)`,
  );
  const { intents, outcomes } = readNotes(directory);
  await insertPairs(
    pool,
    "insert into intent select * from unnest($1::text[], $2::uuid[])",
    intents,
  );
  await insertPairs(pool, "insert into batch select * from unnest($1::text[], $2::text[])", [
    ...outcomes,
  ]);
  await insertPairs(pool, "insert into called select * from unnest($1::uuid[], $2::integer[])", [
    ...runs.calls,
  ]);
  await pool.query(
    `create index on intent (batch);
     create index on intent (job_id);
     create index on called (job_id);
     analyze`,
  );
}

/** Asks all questions. */
export async function askLedger(pool: Pool): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const { what, fault, sql } of questions) {
    const { rows } = await pool.query<{ job_id: string | null }>(sql);
    if (rows.length === 0) continue;
    const jobs = rows.slice(0, shown).map(({ job_id }) => String(job_id));
    findings.push({ what, fault, count: rows.length, jobs });
  }
  return findings;
}

/** How transactions of producers ended. */
export async function outcomesOf(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ outcome: string; n: number }>(
    "select outcome, count(*)::integer as n from batch where batch not like '%.undone' group by outcome order by outcome",
  );
  return rows.map(({ outcome, n }) => `${n} ${outcome.replace("_", " ")}`).join(", ");
}
