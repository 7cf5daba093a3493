/** What the database server itself says: version, pooler, clock, partitions. */

import { migrations, schemaVersion } from "@waybill/postgres";
import { SchemaVersionError } from "@waybill/core";
import type { Client } from "pg";
import { formatDuration } from "../duration.ts";
import { type Finding, fine, notice, problem } from "./finding.ts";
import type { Ask } from "./pipeline-checks.ts";

/** Clocks that differ by more than this, in milliseconds, start delayed jobs visibly early or late. */
const skewNoticeMs = 2_000;
const skewProblemMs = 60_000;

/** The process that the driver was told at the start; not in its types. */
const processOf = (client: Client): string =>
  String((client as unknown as { readonly processID?: unknown }).processID);

/** Server, clock and pooler. `variable` names the connection to correct. */
export async function checkServer(ask: Ask, client: Client, variable: string): Promise<Finding[]> {
  const before = Date.now();
  const [row] = await ask("check_server");
  const after = Date.now();
  const findings: Finding[] = [];
  const readonly = row?.["recovery"] === "true" || row?.["readonly"] === "on";
  findings.push(
    readonly
      ? problem(
          "server",
          `PostgreSQL ${row?.["version"] ?? ""} is read-only`,
          "point DATABASE_URL at the primary",
        )
      : fine("server", `PostgreSQL ${row?.["version"] ?? ""}`),
  );
  // The answer was made somewhere between the question and its arrival.
  const now = Number(row?.["now"]);
  const skewMs = now < before ? before - now : now > after ? now - after : 0;
  if (skewMs < skewNoticeMs) findings.push(fine("clock", "this host and the server agree"));
  else {
    const message = `this host's clock differs from the server's by ${formatDuration(skewMs)}`;
    const remedy =
      "synchronise both with NTP; leases use the server's clock only, runAt and expiresAt the producer's";
    findings.push(
      skewMs < skewProblemMs ? notice("clock", message, remedy) : problem("clock", message, remedy),
    );
  }
  findings.push(
    row?.["pid"] === processOf(client)
      ? fine("pooler", `${variable} leads straight to the server`)
      : notice(
          "pooler",
          `${variable} leads through a pooler in transaction mode: the relay polls, workers have no session lock`,
          "give the relay a direct connection: WAYBILL_RELAY_DATABASE_URL",
        ),
  );
  return findings;
}

/** The schema's version against this package's. */
export async function checkSchema(client: Client, schema: string): Promise<Finding> {
  const actual = await schemaVersion(client, schema);
  if (actual === migrations.length) return fine("schema", `"${schema}" has version ${actual}`);
  const { message } = new SchemaVersionError(schema, migrations.length, actual);
  return problem(
    "schema",
    message,
    actual < migrations.length ? "waybill migrate" : "upgrade the @waybill packages",
  );
}

/** The instant at which a range partition of the outbox ends; undefined for the default one. */
function endOf(bound: string): Date | undefined {
  const text = /TO \('([^']+)'\)/.exec(bound)?.[1];
  if (text === undefined) return undefined;
  const instant = new Date(text);
  return Number.isNaN(instant.getTime()) ? undefined : instant;
}

/** Whether the relay's partition keeper keeps up: partitions made ahead, old ones dropped. */
export async function checkRetention(ask: Ask): Promise<Finding> {
  const rows = (await ask("check_partitions")).filter((row) => row["parent"] === "outbox");
  const ends = rows.map((row) => endOf(row["bound"] ?? "")).filter((end) => end !== undefined);
  const last = ends.reduce((latest, end) => Math.max(latest, end.getTime()), 0);
  const bytes = rows.reduce((sum, row) => sum + Number(row["bytes"]), 0);
  const size = `${Math.ceil(bytes / 1_048_576)} MiB in ${rows.length} partitions`;
  if (ends.length === 0) {
    return notice(
      "retention",
      "no relay has made partitions yet, so nothing is dropped yet",
      "run a relay: waybill relay",
    );
  }
  if (last < Date.now()) {
    return problem(
      "retention",
      `the newest partition of the outbox ended ${formatDuration(Date.now() - last)} ago (${size})`,
      "partitions are kept by the relay; look at its log for the partition keeper",
    );
  }
  return fine("retention", `the outbox has ${size}`);
}
