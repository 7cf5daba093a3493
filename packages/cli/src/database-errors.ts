/** Why PostgreSQL could not be used, in one sentence that says what to do. Never a password. */

import { cleanText, DatabaseUnavailableError } from "@waybill/core";

/** What is wrong with the database, as far as the command can tell. */
export interface DatabaseDiagnosis {
  readonly error: DatabaseUnavailableError;
  /** True where trying again can help: the server is starting, the network is down. */
  readonly waitingHelps: boolean;
}

interface Target {
  readonly display: string;
  readonly host: string;
  readonly port: string;
  readonly user: string;
  readonly database: string;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The parts of a database URL that may be shown. */
export function databaseTarget(url: string): Target {
  const parsed = new URL(url);
  const host = parsed.hostname || parsed.searchParams.get("host") || "localhost";
  const port = parsed.port || "5432";
  const user = decode(parsed.username) || "the operating system's user";
  const database = decode(parsed.pathname.slice(1)) || user;
  return { display: `${host}:${port}/${database}`, host, port, user, database };
}

const stringOf = (value: unknown, key: string): string => {
  if (typeof value !== "object" || value === null) return "";
  const found: unknown = (value as Record<string, unknown>)[key];
  return typeof found === "string" ? found : "";
};

interface Explanation {
  readonly fact: string;
  readonly advice: string;
  readonly waitingHelps: boolean;
}

function byCode(code: string, target: Target): Explanation | undefined {
  switch (code) {
    case "ECONNREFUSED":
    case "ENOENT":
      return {
        fact: `nothing listens on port ${target.port} of ${target.host} (connection refused)`,
        advice: "Start PostgreSQL there, or correct DATABASE_URL.",
        waitingHelps: true,
      };
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return {
        fact: `the host name ${target.host} does not resolve (${code})`,
        advice: "Correct the host in DATABASE_URL, or wait for its DNS entry.",
        waitingHelps: true,
      };
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "ECONNRESET":
      return {
        fact: `no answer from ${target.host}:${target.port} (${code})`,
        advice: "Check host, port and firewall, and whether the server is alive.",
        waitingHelps: true,
      };
    case "28P01":
      return {
        fact: `the server refuses the password of user "${target.user}"`,
        advice: "Correct user and password in DATABASE_URL.",
        waitingHelps: false,
      };
    case "28000":
      return {
        fact: `the server does not let user "${target.user}" in from this host (28000)`,
        advice: "Correct the user in DATABASE_URL, create the role, or allow it in pg_hba.conf.",
        waitingHelps: false,
      };
    case "3D000":
      return {
        fact: `the database "${target.database}" does not exist`,
        advice: `Create it ("createdb ${target.database}"), or correct DATABASE_URL.`,
        waitingHelps: false,
      };
    case "53300":
      return {
        fact: "the server has no connection left (53300)",
        advice: "Raise max_connections, or close connections of other programs.",
        waitingHelps: true,
      };
    case "57P03":
    case "57P01":
    case "57P02":
      return {
        fact: `the server is starting up or shutting down (${code})`,
        advice: "Try again in a moment.",
        waitingHelps: true,
      };
    case "25006":
      return {
        fact: "the server is read-only: a standby, or a primary in maintenance",
        advice: "Point DATABASE_URL at the primary.",
        waitingHelps: true,
      };
    case "42501":
      return {
        fact: `user "${target.user}" has no right to do this (42501)`,
        advice:
          "Give the user the role of its part (waybill migrate --roles), or use the owner of the schema. docs/guides/access.md lists the roles.",
        waitingHelps: false,
      };
    case "57014":
    case "55P03":
      return {
        fact: `a statement waited too long (${code})`,
        advice: "Look for a transaction that holds locks (pg_stat_activity), then try again.",
        waitingHelps: true,
      };
    default:
      return undefined;
  }
}

function byText(text: string, target: Target): Explanation | undefined {
  if (/timeout expired|connect timeout|timeout exceeded|read timeout/i.test(text)) {
    return byCode("ETIMEDOUT", target);
  }
  if (/client password must be a string|no password supplied/i.test(text)) {
    return {
      fact: "the server asks for a password and DATABASE_URL holds none",
      advice: "Add the password: postgres://user:password@host/database.",
      waitingHelps: false,
    };
  }
  if (/does not support SSL/i.test(text)) {
    return {
      fact: "the server does not speak TLS, and DATABASE_URL demands it",
      advice: "Remove sslmode from DATABASE_URL, or enable TLS on the server.",
      waitingHelps: false,
    };
  }
  if (/certificate|self.signed|tls|ssl/i.test(text)) {
    return {
      fact: `the TLS handshake failed (${text})`,
      advice: "Correct the certificate, or name its authority in NODE_EXTRA_CA_CERTS.",
      waitingHelps: false,
    };
  }
  if (/Connection terminated|connection ended|socket/i.test(text)) {
    return {
      fact: "the connection was closed by the other side, so it is shutting down or it is not PostgreSQL",
      advice: `Check the port (PostgreSQL is 5432, found ${target.port}) and the server's log.`,
      waitingHelps: true,
    };
  }
  return undefined;
}

/** A file that the driver reads for TLS before it connects. */
function byFile(error: unknown, code: string): Explanation | undefined {
  if (stringOf(error, "syscall") !== "open") return undefined;
  return {
    fact: `the file ${cleanText(stringOf(error, "path"), 300)} of its URL cannot be read (${code})`,
    advice: "Correct sslrootcert, sslcert or sslkey in DATABASE_URL, or the file's rights.",
    waitingHelps: false,
  };
}

/** Explains an error of pg, where it is about reaching or using the server. */
export function diagnoseDatabase(error: unknown, url: string): DatabaseDiagnosis | undefined {
  const target = databaseTarget(url);
  // localhost has two addresses, and an AggregateError has no message of its own.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const text = cleanText(stringOf(first, "message"), 300);
  const code = stringOf(first, "code");
  const explanation = byFile(first, code) ?? byCode(code, target) ?? byText(text, target);
  if (explanation === undefined) return undefined;
  const { fact, advice, waitingHelps } = explanation;
  return {
    error: new DatabaseUnavailableError(
      `Cannot use PostgreSQL at ${target.display}: ${fact}. ${advice}`,
      { cause: error },
    ),
    waitingHelps,
  };
}
