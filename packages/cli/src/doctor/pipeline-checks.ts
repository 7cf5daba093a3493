/** What the tables say about the line from the outbox to the workers. */

import type { Statements } from "@waybill/postgres";
import type { Client } from "pg";
import { formatDuration } from "../duration.ts";
import { type Finding, fine, notice, problem } from "./finding.ts";

/** An outbox row that is not published after this time, in milliseconds, needs somebody to look. */
const lagLimitMs = 60_000;
/** An outbox this long is counted no further. */
const pendingMax = 10_000;
/** A relay saves its cursor at least this often while there is something to publish. */
const transactionLimitMs = 300_000;

type Rows = Readonly<Record<string, string | null>>[];

/** Runs one of the doctor's statements. */
export type Ask = (name: keyof Statements) => Promise<Rows>;

/** Statements on a connection; every column is text. */
export function askOn(client: Client, statements: Statements): Ask {
  return async (name) =>
    (await client.query<Record<string, string | null>>(statements[name].text)).rows;
}

const times = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Who holds the relay's term, and how far the outbox is behind. */
export async function checkRelay(ask: Ask): Promise<Finding[]> {
  const [relay] = await ask("check_relay");
  const [outbox] = await ask("check_outbox");
  const pending = Number(outbox?.["pending"] ?? 0);
  const ageMs = Number(outbox?.["age"] ?? 0);
  const held = relay?.["held"] === "true";
  const many = pending >= pendingMax ? `${pendingMax} or more rows` : times(pending, "row");
  const findings = [
    held
      ? fine("relay", `${relay["holder"] ?? "a relay"} holds the term`)
      : problem(
          "relay",
          "no relay holds the term, so nothing is published",
          "start one: waybill relay",
        ),
  ];
  if (pending === 0) findings.push(fine("outbox", "everything is published"));
  else if (ageMs < lagLimitMs)
    findings.push(fine("outbox", `${many} to publish, the oldest for ${formatDuration(ageMs)}`));
  else {
    findings.push(
      problem(
        "outbox",
        `${many} not published, the oldest for ${formatDuration(ageMs)}`,
        held
          ? "look at the relay's log: it says why the broker takes nothing"
          : "start a relay: waybill relay",
      ),
    );
  }
  return findings;
}

const advice: Readonly<Record<string, string>> = {
  no_handler: "deploy a worker that handles the type and version; the message goes on by itself",
  unroutable: "no queue is bound there; create it: waybill topology apply",
  nacked: "drain the queue or raise its length limit, then waybill jobs retry {id}",
  refused: "the broker refuses this message, see waybill jobs show {id}",
};

/** Messages that are parked, and timers that no relay fires. */
export async function checkTimers(ask: Ask): Promise<Finding[]> {
  const rows = await ask("check_timers");
  const findings: Finding[] = [];
  for (const row of rows) {
    const { reason, queue, detail, example } = row;
    const overdue = Number(row["overdue"]);
    const held = Number(row["held"]);
    const place = queue === "" || queue === null ? "events and routes" : `queue ${queue}`;
    if (overdue > 0) {
      findings.push(
        problem(
          "timers",
          `${place}: ${times(overdue, "timer")} (${reason ?? ""}) due for more than a minute`,
          "timers are fired by the relay; start one: waybill relay",
        ),
      );
    }
    const words = detail === null || detail === undefined ? "" : `: ${detail}`;
    if (held > 0) {
      findings.push(
        problem(
          "parked",
          `${place}: ${times(held, "message")} parked until an operator says so (${reason ?? ""}), for example ${example ?? ""}${words}`,
          `waybill jobs show ${example ?? "<id>"}, then waybill jobs retry ${example ?? "<id>"}`,
        ),
      );
    }
    const remedy = advice[reason ?? ""]?.replace("{id}", example ?? "<id>");
    const going = Number(row["count"]) - held;
    if (remedy !== undefined && going > 0) {
      findings.push(
        problem(
          "parked",
          `${place}: ${times(going, "message")} parked as ${reason ?? ""} (${row["type"] ?? ""})${words}`,
          remedy,
        ),
      );
    }
  }
  const waiting = rows.reduce((sum, row) => sum + Number(row["count"]), 0);
  if (findings.length === 0)
    findings.push(fine("timers", `${times(waiting, "timer")}, none overdue, nothing parked`));
  return findings;
}

/** Jobs that ended as failed and wait for a decision. */
export async function checkDeadLetters(ask: Ask): Promise<Finding[]> {
  const rows = await ask("check_dead_letters");
  if (rows.length === 0) return [fine("dead letters", "none")];
  return rows.map((row) =>
    notice(
      "dead letters",
      `queue ${row["queue"] ?? ""}: ${row["count"] ?? ""} (${row["class"] ?? ""}) ${(row["message"] ?? "").slice(0, 160)}`,
      `waybill dead list --queue ${row["queue"] ?? ""}; when the cause is mended: waybill dead retry --queue ${row["queue"] ?? ""}`,
    ),
  );
}

const queuesOf = (row: Rows[number]): string[] => JSON.parse(row["queues"] ?? "[]") as string[];

/** Workers by the database's clock. */
export async function checkWorkers(ask: Ask): Promise<Finding[]> {
  const rows = await ask("check_workers");
  const alive = rows.filter((row) => row["alive"] === "true");
  if (alive.length === 0) {
    return [
      problem(
        "workers",
        "no worker is alive, so no job is run",
        "start one: waybill worker <module>",
      ),
    ];
  }
  const served = new Set(alive.flatMap(queuesOf));
  const findings = [fine("workers", `${alive.length} alive, on ${[...served].sort().join(", ")}`)];
  const known = (await ask("list_known_queues")).map((row) => row["queue"] ?? "");
  for (const queue of known.filter((name) => !served.has(name))) {
    findings.push(
      problem(
        "workers",
        `queue ${queue}: no worker that is alive consumes it`,
        "start a worker that lists it in queues",
      ),
    );
  }
  return findings;
}

/** Open transactions that keep rows from the relay and dead rows from vacuum. */
export async function checkTransactions(ask: Ask): Promise<Finding[]> {
  const [row] = await ask("check_transactions");
  const ageMs = Number(row?.["age"] ?? 0);
  const prepared = Number(row?.["prepared"] ?? 0);
  const findings: Finding[] = [];
  if (ageMs > transactionLimitMs) {
    findings.push(
      notice(
        "transactions",
        `the oldest has been open for ${formatDuration(ageMs)} (process ${row?.["pid"] ?? ""}, ${row?.["application"] || "unnamed"}, ${row?.["state"] ?? ""}): its own jobs wait, and tables bloat`,
        "end it in the application, or by pg_terminate_backend",
      ),
    );
  }
  if (prepared > 0) {
    findings.push(
      notice(
        "transactions",
        `${times(prepared, "prepared transaction")} never ended`,
        "see pg_prepared_xacts; COMMIT PREPARED or ROLLBACK PREPARED each",
      ),
    );
  }
  return findings.length > 0 ? findings : [fine("transactions", "none is open for long")];
}
