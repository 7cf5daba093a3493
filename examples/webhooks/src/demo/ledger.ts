import { readFile } from "node:fs/promises";
import type { Pool } from "pg";

/** The books of a run, counted in SQL; ledger.sql says what each figure means. */
export interface Ledger {
  readonly events: number;
  readonly rolledBack: number;
  readonly repeated: number;
  readonly jobs: number;
  readonly succeeded: number;
  readonly deadLettered: number;
  readonly effects: number;
  readonly counted: number;
  readonly delivered: number;
  readonly deliveredAgain: number;
  readonly lost: number;
  readonly doubled: number;
  readonly ghosts: number;
  /** Failed attempts by failure class. */
  readonly failedAttempts: Readonly<Record<string, number>>;
  /** What the last three consist of. */
  readonly detail: Readonly<
    Record<"lost" | "doubled" | "ghosts", Readonly<Record<string, number>>>
  >;
}

/** Counts. */
export async function readLedger(pool: Pool): Promise<Ledger> {
  const sql = await readFile(new URL("ledger.sql", import.meta.url), "utf8");
  const client = await pool.connect();
  try {
    // The tables are minutes old: without statistics the planner guesses, and compiles for nothing.
    await client.query("analyze");
    await client.query("set jit = off");
    const [ledger] = (await client.query<Ledger>(sql)).rows;
    if (ledger === undefined) throw new Error("Cannot read the ledger: the query gave no row.");
    return ledger;
  } finally {
    client.release();
  }
}

/** True where nothing is lost, doubled or a ghost. */
export function balances(ledger: Ledger): boolean {
  return ledger.lost === 0 && ledger.doubled === 0 && ledger.ghosts === 0;
}

/** The last line of the demo. */
export function summary(ledger: Ledger): string {
  const { events, jobs, effects, deadLettered, lost, doubled, ghosts } = ledger;
  return `demo: ${events} events, ${jobs} jobs, ${effects} effects, ${deadLettered} dead-lettered, ${lost} lost, ${doubled} doubled, ${ghosts} ghosts`;
}

const words: Readonly<Record<string, string>> = {
  rate_limited: "rate limited (429)",
  timeout: "timed out",
  unknown: "answered 500",
  transient: "no connection",
};

function row(name: string, count: number, remark: string): string {
  return `  ${name.padEnd(18)}${count.toLocaleString("en-US").padStart(8)}   ${remark}`;
}

/** The ledger as lines of text. */
export function ledgerLines(ledger: Ledger): readonly string[] {
  const failures = Object.entries(ledger.failedAttempts);
  const attempts = failures.reduce((sum, [, count]) => sum + count, 0);
  const kinds = failures.map(([kind, count]) => `${count} ${words[kind] ?? kind}`).join(", ");
  const parts = (kind: "lost" | "doubled" | "ghosts"): string => {
    const found = Object.entries(ledger.detail[kind]).filter(([, count]) => count > 0);
    return found.map(([name, count]) => `${count} in ${name}`).join(", ");
  };
  return [
    row("events committed", ledger.events, "GitHub webhooks in the service's own table"),
    row("rolled back", ledger.rolledBack, "failed before the commit, on purpose: nothing remains"),
    row("sent again", ledger.repeated, "same delivery id: the idempotency key gave the same jobs"),
    row("jobs", ledger.jobs, "two for each committed event"),
    row("  succeeded", ledger.succeeded, ""),
    row("  dead-lettered", ledger.deadLettered, "the endpoint refused every attempt"),
    row("failed attempts", attempts, kinds),
    row(
      "effects",
      ledger.effects,
      `rows written by webhook.index; its counters say ${ledger.counted}`,
    ),
    row("deliveries", ledger.delivered, "events that the endpoint accepted"),
    row("  accepted again", ledger.deliveredAgain, "no double: a plain handler runs at least once"),
    row(
      "lost",
      ledger.lost,
      parts("lost") || "no event without its jobs, effect, delivery or dead letter",
    ),
    row("doubled", ledger.doubled, parts("doubled") || "no job or effect twice"),
    row("ghosts", ledger.ghosts, parts("ghosts") || "nothing for an event that was rolled back"),
  ].map((line) => line.trimEnd());
}
