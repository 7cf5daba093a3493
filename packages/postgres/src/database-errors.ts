import { DatabaseUnavailableError, QueueFullError, SchemaVersionError } from "@waybill/core";
import { migrations } from "./sql.generated.ts";

/** Fields under which the data layers keep the driver's error. */
const wrappers = ["cause", "original", "parent", "driverError", "driverAdapterError", "meta"];

function find(
  error: unknown,
  wanted: (code: string) => boolean,
  depth: number,
): string | undefined {
  if (typeof error !== "object" || error === null || depth > 5) return undefined;
  const record = error as Record<string, unknown>;
  // Prisma's adapters call it originalCode, postgres.js and pg code; Bun.SQL errno.
  for (const field of ["code", "originalCode", "errno"]) {
    const code = record[field];
    if (typeof code === "string" && wanted(code)) return code;
  }
  for (const field of wrappers) {
    const found = find(record[field], wanted, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * The SQLSTATE of an error of any data layer, however deep the layer wrapped it; undefined for an
 * error that is not PostgreSQL's.
 */
export function sqlStateOf(error: unknown): string | undefined {
  // Five digits or capitals, a digit among them; P1001 and P2010 are Prisma's own codes.
  return find(error, (code) => /^(?!P[1-9])(?=.*\d)[0-9A-Z]{5}$/.test(code), 0);
}

const network = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EPIPE",
  "ETIMEDOUT",
]);

const states: Readonly<Record<string, string>> = {
  "25006":
    "the server is read-only (a standby, or default_transaction_read_only). Connect to the primary.",
  "28000": "PostgreSQL refuses the login. Check the user in the URL and pg_hba.conf.",
  "28P01": "PostgreSQL refuses the password. Check the user and password in the URL.",
  "3D000": "the database does not exist. Check its name in the URL, or create it.",
  "42501":
    "the database user lacks a right on Waybill's schema. Give it the role of its part: see docs/guides/access.md.",
  "53300": "PostgreSQL has no connection left. Lower the pools' sizes or raise max_connections.",
  "57P01": "PostgreSQL ended the connection. Try again.",
  "57P02": "PostgreSQL crashed and restarts. Try again.",
  "57P03": "PostgreSQL is starting or shutting down. Try again.",
};

/** What `pg`'s pool says, without a code, of one that is exhausted and of a server that does not answer. */
const poolTimeouts = [
  "timeout exceeded when trying to connect",
  "Connection terminated due to connection timeout",
];

/** True where the pool had no connection to give: nothing was sent. */
export function gotNoConnection(error: unknown): boolean {
  return error instanceof Error && poolTimeouts.includes(error.message);
}

/**
 * Translates an error that the operator has to act on: server away, read-only, login refused. Any
 * other error (a serialization failure, a deadlock, a constraint) is the caller's and undefined here.
 */
export function unavailableError(
  action: string,
  error: unknown,
): DatabaseUnavailableError | undefined {
  const fact = states[sqlStateOf(error) ?? ""];
  if (fact !== undefined) {
    return new DatabaseUnavailableError(`Cannot ${action}: ${fact}`, { cause: error });
  }
  if (gotNoConnection(error)) {
    return new DatabaseUnavailableError(
      `Cannot ${action}: the pool had no connection in its time. Give it more connections, keep transactions shorter, or see whether PostgreSQL answers.`,
      { cause: error },
    );
  }
  const code = find(error, (text) => network.has(text), 0);
  if (code === undefined) return undefined;
  return new DatabaseUnavailableError(
    `Cannot ${action}: PostgreSQL cannot be reached (${code}). Check host and port in the URL, and that the server runs.`,
    { cause: error },
  );
}

/** What waybill.enqueue says of a full queue, in PostgreSQL's own text of a jsonb object. */
const fullQueue =
  /the queue is full: (\{"key": (?:null|"(?:[^"\\]|\\.)*"), "max": \d+, "queue": "[^"]*"\})/;

/** The first text of an error, or of those it wraps, that says which queue is full. */
function fullQueueOf(error: unknown, depth: number): string | undefined {
  if (typeof error === "string") return fullQueue.exec(error)?.[1];
  if (typeof error !== "object" || error === null || depth > 5) return undefined;
  const record = error as Record<string, unknown>;
  for (const field of ["message", "originalMessage", ...wrappers]) {
    const found = fullQueueOf(record[field], depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The refusal of a full queue, whatever data layer the error came through; undefined for any other. */
export function queueFullError(error: unknown): QueueFullError | undefined {
  if (sqlStateOf(error) !== "WB001") return undefined;
  const text = fullQueueOf(error, 0);
  if (text === undefined) return undefined;
  const { queue, key, max } = JSON.parse(text) as {
    readonly queue: string;
    readonly key: string | null;
    readonly max: number;
  };
  return new QueueFullError(queue, key ?? undefined, max, { cause: error });
}

/** As {@link unavailableError}, and a missing schema, table or function as SchemaVersionError. */
export function operatingError(action: string, schema: string, error: unknown): Error | undefined {
  const state = sqlStateOf(error);
  if (state === "3F000" || state === "42P01" || state === "42883") {
    return new SchemaVersionError(schema, migrations.length, 0, { cause: error });
  }
  return unavailableError(action, error);
}
