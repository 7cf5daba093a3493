/**
 * The environment, read in this one file; every other package takes options. Nothing is refused
 * here on its own: what is wrong is collected, so that all problems are reported together.
 */

import { readFileSync } from "node:fs";
import type { ConfigIssue } from "@waybill/core";
import { suggestionFor } from "./suggestion.ts";

/** A variable that the command knows. */
export interface EnvironmentVariable {
  readonly name: string;
  /** Other names for it, in order of precedence after the name. */
  readonly aliases: readonly string[];
  /** True where `NAME_FILE` may name a file that holds the value. */
  readonly file: boolean;
  /** What it sets, for the reference. */
  readonly description: string;
}

function variable(
  name: string,
  description: string,
  more: { readonly aliases?: readonly string[]; readonly file?: boolean } = {},
): EnvironmentVariable {
  return { name, description, aliases: more.aliases ?? [], file: more.file ?? false };
}

/** Every variable that the command reads. */
export const environmentVariables: readonly EnvironmentVariable[] = [
  variable(
    "DATABASE_URL",
    "PostgreSQL with the Waybill schema: postgres://user:password@host:5432/database",
    { file: true },
  ),
  variable("RABBITMQ_URL", "Broker: amqp://user:password@host:5672/vhost", {
    aliases: ["AMQP_URL", "CLOUDAMQP_URL"],
    file: true,
  }),
  variable(
    "RABBITMQ_MANAGEMENT_URL",
    "Management API of the broker: http://user:password@host:15672. Lets checks compare queue arguments and policies",
    { file: true },
  ),
  variable(
    "LOG_LEVEL",
    "Least level of the log lines: trace, debug, info, warn, error, fatal or silent",
  ),
  variable(
    "WAYBILL_RELAY_DATABASE_URL",
    "Direct connection for the relay where DATABASE_URL leads through a pooler in transaction mode; default DATABASE_URL",
    { file: true },
  ),
  variable(
    "WAYBILL_SIGNING_KEYS",
    "Keys that sign messages (relay; the first does) and check them (worker), each as id:key with 32 bytes in base64, several with commas or on lines of their own",
    { file: true },
  ),
  variable(
    "WAYBILL_ENCRYPTION_KEYS",
    "Keys that open encrypted payloads (worker), and encrypt what jobs edit writes (the first does); written in the same way",
    { file: true },
  ),
  variable("WAYBILL_SCHEMA", 'PostgreSQL schema; default "waybill"'),
  variable("WAYBILL_PREFIX", 'Prefix of exchanges and queues; default "waybill"'),
  variable(
    "WAYBILL_TOPOLOGY",
    "What daemons do about exchanges and queues at start: assert (declare), check (refuse to start where they differ) or off; default assert",
  ),
  variable(
    "WAYBILL_NAME",
    "Name of this process in logs, in the database and in the management UI; default: the host's name",
  ),
  variable(
    "WAYBILL_GRACE",
    "How long a daemon may drain after SIGTERM, for example 30s; default 30s for a worker, 5s for a relay",
  ),
  variable(
    "WAYBILL_OUTBOX_RETENTION",
    "How long the relay keeps published rows of ended jobs; default 3d",
  ),
  variable("WAYBILL_INBOX_RETENTION", "How long the relay keeps ended jobs; default 14d"),
  variable(
    "WAYBILL_HISTORY_RETENTION",
    "How long the relay keeps failures, results, dead letters, checkpoints, progress and the audit log; default 30d",
  ),
];

/** Read by the test and demo tooling, never by the command. */
const foreignPrefixes = ["WAYBILL_TEST_", "WAYBILL_DEMO_", "WAYBILL_SERVICES"];

/** A value together with the name of the variable that gave it. */
export interface EnvironmentValue {
  readonly value: string;
  readonly origin: string;
}

/** What was found in the environment. */
export interface Environment {
  /** Values by the variable's main name. */
  readonly values: ReadonlyMap<string, EnvironmentValue>;
  readonly issues: readonly ConfigIssue[];
}

type Source = Readonly<Record<string, string | undefined>>;

/** An empty variable counts as absent: that is how compose files and CI systems unset one. */
const valueOf = (source: Source, name: string): string | undefined => {
  const value = source[name];
  return value === undefined || value.trim() === "" ? undefined : value;
};

function readSecretFile(name: string, path: string): EnvironmentValue | ConfigIssue {
  let content: string;
  try {
    content = readFileSync(path, "utf8").trim();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unreadable";
    return {
      path: name,
      message: `names the file ${JSON.stringify(path)}, which cannot be read (${code}); mount the secret there, or correct the path`,
    };
  }
  if (content !== "") return { value: content, origin: name };
  return {
    path: name,
    message: `names the file ${JSON.stringify(path)}, which is empty; write the value into it`,
  };
}

function readVariable(
  source: Source,
  known: EnvironmentVariable,
  issues: ConfigIssue[],
): EnvironmentValue | undefined {
  for (const name of [known.name, ...known.aliases]) {
    const value = valueOf(source, name);
    const path = known.file ? valueOf(source, `${name}_FILE`) : undefined;
    if (value !== undefined && path !== undefined) {
      issues.push({ path: name, message: `is set, and so is ${name}_FILE; unset one of the two` });
      return undefined;
    }
    if (value !== undefined) return { value, origin: name };
    if (path === undefined) continue;
    const read = readSecretFile(`${name}_FILE`, path);
    if ("value" in read) return read;
    issues.push(read);
    return undefined;
  }
  return undefined;
}

/** Names that may stand in the environment, secret files included. */
function knownNames(): readonly string[] {
  return environmentVariables.flatMap((known) =>
    [known.name, ...known.aliases].flatMap((name) =>
      known.file ? [name, `${name}_FILE`] : [name],
    ),
  );
}

function unknownNames(source: Source): readonly ConfigIssue[] {
  const known = knownNames();
  const issues: ConfigIssue[] = [];
  for (const name of Object.keys(source)) {
    if (!name.startsWith("WAYBILL_") || known.includes(name)) continue;
    if (foreignPrefixes.some((prefix) => name.startsWith(prefix))) continue;
    const suggestion = suggestionFor(name, known);
    const advice = suggestion === undefined ? "remove it" : `did you mean ${suggestion}?`;
    issues.push({ path: name, message: `is not a variable that Waybill knows; ${advice}` });
  }
  return issues;
}

/** Reads the environment; never throws. */
export function readEnvironment(source: Source = process.env): Environment {
  const values = new Map<string, EnvironmentValue>();
  const issues: ConfigIssue[] = [];
  for (const known of environmentVariables) {
    const found = readVariable(source, known, issues);
    if (found !== undefined) values.set(known.name, found);
  }
  return { values, issues: [...issues, ...unknownNames(source)] };
}
