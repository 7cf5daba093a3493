/**
 * Settings of one run: flags win over the environment, which wins over the defaults. Every problem
 * of all of them is reported at once.
 */

import {
  checkSchemaName,
  checkTopologyPrefix,
  ConfigError,
  type ConfigIssue,
  createKeyRing,
  type KeyRing,
} from "@waybill/core";
import { parseDuration } from "./duration.ts";
import type { Environment, EnvironmentValue } from "./env.ts";

/** Levels that LOG_LEVEL and --log-level take. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
/** One of {@link logLevels}. */
export type LogLevel = (typeof logLevels)[number];

/** What a daemon does about the topology at start. */
export const topologyModes = ["assert", "check", "off"] as const;
/** One of {@link topologyModes}. */
export type TopologyMode = (typeof topologyModes)[number];

/** Flags that every command takes. */
export interface GlobalFlags {
  readonly databaseUrl?: string | undefined;
  readonly rabbitmqUrl?: string | undefined;
  readonly schema?: string | undefined;
  readonly prefix?: string | undefined;
  readonly logLevel?: string | undefined;
  readonly json?: true | undefined;
  readonly quiet?: true | undefined;
  readonly color: boolean;
}

/** Flags of the daemons. */
export interface DaemonFlags {
  readonly topology?: string | undefined;
  readonly name?: string | undefined;
  readonly grace?: string | undefined;
  readonly outboxRetention?: string | undefined;
  readonly inboxRetention?: string | undefined;
  readonly historyRetention?: string | undefined;
}

/** Settings of one run; a URL that no command of this run needs may be absent. */
export interface Settings {
  readonly databaseUrl?: string | undefined;
  readonly relayDatabaseUrl?: string | undefined;
  readonly rabbitmqUrl?: string | undefined;
  readonly managementUrl?: string | undefined;
  readonly schema: string;
  readonly prefix: string;
  readonly topology: TopologyMode;
  /** Undefined: the command's own default. */
  readonly logLevel: LogLevel | undefined;
  readonly name: string | undefined;
  /** Undefined, as the retentions: the daemon's own default. */
  readonly graceMs: number | undefined;
  readonly outboxRetentionMs: number | undefined;
  readonly inboxRetentionMs: number | undefined;
  readonly historyRetentionMs: number | undefined;
  readonly signing: KeyRing | undefined;
  readonly encryption: KeyRing | undefined;
}

/** URLs that a command can insist on. */
export type NeededUrl = "databaseUrl" | "relayDatabaseUrl" | "rabbitmqUrl";

interface Reader {
  readonly environment: Environment;
  readonly issues: ConfigIssue[];
}

function pick(
  reader: Reader,
  variable: string,
  flag: string,
  given: string | undefined,
): EnvironmentValue | undefined {
  return given === undefined
    ? reader.environment.values.get(variable)
    : { value: given, origin: flag };
}

/** Reads one value; `read` gives undefined for a bad one, and `rule` says what was expected. */
function parsed<T>(
  reader: Reader,
  found: EnvironmentValue | undefined,
  read: (text: string) => T | undefined,
  rule: string,
): T | undefined {
  if (found === undefined) return undefined;
  const value = read(found.value.trim());
  if (value === undefined) reader.issues.push({ path: found.origin, message: rule });
  return value;
}

/** A URL of a flag: every user of the host reads arguments in the list of processes, so no secret may be in it. */
function pickUrl(
  reader: Reader,
  variable: string,
  flag: string,
  given: string | undefined,
): EnvironmentValue | undefined {
  if (given !== undefined && URL.canParse(given)) {
    const { password, searchParams } = new URL(given);
    if (password !== "" || searchParams.has("password")) {
      reader.issues.push({
        path: flag,
        message:
          "has a password, and every user of this host reads it in the list of processes; " +
          `give the URL in ${variable}, or in a file that ${variable}_FILE names`,
      });
    }
  }
  return pick(reader, variable, flag, given);
}

function duration(
  reader: Reader,
  variable: string,
  flag: string,
  given: string | undefined,
): number | undefined {
  const rule = "expected a time with its unit, such as 30s, 5m or 3d";
  return parsed(reader, pick(reader, variable, flag, given), parseDuration, rule);
}

/** Keys; what is wrong with them is said without them. */
function keyRing(reader: Reader, variable: string): KeyRing | undefined {
  const found = reader.environment.values.get(variable);
  if (found === undefined) return undefined;
  try {
    return createKeyRing(found.value);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const { path, message } of error.issues) {
      reader.issues.push({ path: found.origin, message: `${path}: ${message}` });
    }
    return undefined;
  }
}

const oneOf =
  <T extends string>(words: readonly T[]) =>
  (text: string): T | undefined =>
    words.find((word) => word === text.toLowerCase());

const urlOf =
  (protocols: readonly string[]) =>
  (text: string): string | undefined =>
    URL.canParse(text) && protocols.includes(new URL(text).protocol) ? text : undefined;

/** A URL's text is never shown in an issue: it holds the password. */
const urlRule = (example: string): string =>
  `expected ${example}; percent-encode characters such as @ : / # in user and password`;

const postgresUrl = urlOf(["postgres:", "postgresql:"]);
const postgresRule = urlRule("a URL like postgres://user:password@host:5432/database");

function nameRead(check: (name: string) => string): (text: string) => string | undefined {
  return (text) => {
    try {
      return check(text);
    } catch {
      return undefined;
    }
  };
}

const databaseRemedy =
  "is not set; set it, or DATABASE_URL_FILE, for example to postgres://user:password@localhost:5432/app, or pass --database-url without a password";

/** Under which names each URL is given and its problems reported, and how to give it. */
const remedies: Readonly<
  Record<NeededUrl, { readonly names: readonly string[]; readonly remedy: string }>
> = {
  databaseUrl: {
    names: ["DATABASE_URL", "DATABASE_URL_FILE", "--database-url"],
    remedy: databaseRemedy,
  },
  relayDatabaseUrl: {
    names: [
      "DATABASE_URL",
      "DATABASE_URL_FILE",
      "--database-url",
      "WAYBILL_RELAY_DATABASE_URL",
      "WAYBILL_RELAY_DATABASE_URL_FILE",
    ],
    remedy: databaseRemedy,
  },
  rabbitmqUrl: {
    names: ["RABBITMQ_URL", "AMQP_URL", "CLOUDAMQP_URL"]
      .flatMap((name) => [name, `${name}_FILE`])
      .concat("--rabbitmq-url"),
    remedy:
      "is not set; set it, or RABBITMQ_URL_FILE, for example to amqp://user:password@localhost:5672, or pass --rabbitmq-url without a password",
  },
};

/**
 * Settings of a run that needs the URLs in `needs`.
 *
 * @throws ConfigError with every problem of flags and environment
 */
export function resolveSettings<N extends NeededUrl>(
  flags: GlobalFlags & DaemonFlags,
  environment: Environment,
  needs: readonly N[],
): Settings & { readonly [K in N]: string } {
  const reader: Reader = { environment, issues: [...environment.issues] };
  const databaseUrl = parsed(
    reader,
    pickUrl(reader, "DATABASE_URL", "--database-url", flags.databaseUrl),
    postgresUrl,
    postgresRule,
  );
  // --database-url is the nearer wish, also for the relay.
  const relay =
    flags.databaseUrl === undefined
      ? environment.values.get("WAYBILL_RELAY_DATABASE_URL")
      : undefined;
  const settings: Settings = {
    databaseUrl,
    relayDatabaseUrl: parsed(reader, relay, postgresUrl, postgresRule) ?? databaseUrl,
    rabbitmqUrl: parsed(
      reader,
      pickUrl(reader, "RABBITMQ_URL", "--rabbitmq-url", flags.rabbitmqUrl),
      urlOf(["amqp:", "amqps:"]),
      urlRule("a URL like amqp://user:password@host:5672/vhost, or amqps://"),
    ),
    managementUrl: parsed(
      reader,
      environment.values.get("RABBITMQ_MANAGEMENT_URL"),
      urlOf(["http:", "https:"]),
      urlRule("a URL like http://user:password@host:15672"),
    ),
    schema:
      parsed(
        reader,
        pick(reader, "WAYBILL_SCHEMA", "--schema", flags.schema),
        nameRead(checkSchemaName),
        "expected lower case letters, digits and '_', no digit first, at most 40 characters",
      ) ?? "waybill",
    prefix:
      parsed(
        reader,
        pick(reader, "WAYBILL_PREFIX", "--prefix", flags.prefix),
        nameRead(checkTopologyPrefix),
        "expected lower case letters, digits, '.', '_' and '-', at most 40 characters",
      ) ?? "waybill",
    topology:
      parsed(
        reader,
        pick(reader, "WAYBILL_TOPOLOGY", "--topology", flags.topology),
        oneOf(topologyModes),
        `expected ${topologyModes.join(", ")}`,
      ) ?? "assert",
    logLevel: parsed(
      reader,
      pick(reader, "LOG_LEVEL", "--log-level", flags.logLevel),
      oneOf(logLevels),
      `expected ${logLevels.join(", ")}`,
    ),
    name: parsed(
      reader,
      pick(reader, "WAYBILL_NAME", "--name", flags.name),
      (text) => (/^[\x20-\x7e]{1,80}$/.test(text) ? text : undefined),
      "expected 1 to 80 printable ASCII characters",
    ),
    graceMs: duration(reader, "WAYBILL_GRACE", "--grace", flags.grace),
    outboxRetentionMs: duration(
      reader,
      "WAYBILL_OUTBOX_RETENTION",
      "--outbox-retention",
      flags.outboxRetention,
    ),
    inboxRetentionMs: duration(
      reader,
      "WAYBILL_INBOX_RETENTION",
      "--inbox-retention",
      flags.inboxRetention,
    ),
    historyRetentionMs: duration(
      reader,
      "WAYBILL_HISTORY_RETENTION",
      "--history-retention",
      flags.historyRetention,
    ),
    signing: keyRing(reader, "WAYBILL_SIGNING_KEYS"),
    encryption: keyRing(reader, "WAYBILL_ENCRYPTION_KEYS"),
  };
  for (const need of needs) {
    const { names, remedy } = remedies[need];
    // One that was given and refused is no longer missing.
    const reported = reader.issues.some((issue) => names.includes(issue.path));
    if (settings[need] !== undefined || reported) continue;
    reader.issues.push({ path: names[0] ?? need, message: remedy });
  }
  if (reader.issues.length > 0) throw new ConfigError("the waybill command", reader.issues);
  return settings as Settings & { readonly [K in N]: string };
}
