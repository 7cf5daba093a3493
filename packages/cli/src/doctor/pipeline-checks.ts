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

/** A number and its noun. */
export const times = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? "" : "s"}`;

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
  unroutable: "no queue is bound there; create it: waybill topology apply",
  nacked: "drain the queue or raise its length limit, then waybill jobs retry {id}",
  refused: "the broker refuses this message, see waybill jobs show {id}",
};

/** What no worker knew: a deploy that is behind its producers, or one that was rolled back. */
async function unknownTypes(ask: Ask): Promise<Finding[]> {
  return (await ask("check_unknown_types")).map((row) => {
    const { queue, type, version, example } = row;
    const held = Number(row["held"]);
    const what = `version ${version ?? ""} of ${type ?? ""}`;
    const messages = times(Number(row["count"]), "message");
    const since = formatDuration(Number(row["age"]));
    return problem(
      "parked",
      `queue ${queue ?? ""}: no worker handles ${what}: ${messages} parked as no_handler, the oldest for ${since}`,
      held > 0
        ? `deploy a worker that handles ${what}, then waybill jobs retry ${example ?? "<id>"} and the others`
        : `deploy a worker that handles ${what}; they go on by themselves`,
    );
  });
}

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
    // These have a finding for each type and version.
    if (reason === "no_handler") continue;
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
  findings.push(...(await unknownTypes(ask)));
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
