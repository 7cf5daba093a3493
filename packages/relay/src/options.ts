import { hostname } from "node:os";
import {
  checkSchemaName,
  checkTopologyPrefix,
  isKeyRing,
  type KeyRing,
  keyRingRule,
  type Logger,
  parseOptions,
} from "@waybill/core";
import type { TopologyMode } from "@waybill/rabbitmq";
import { pino } from "pino";
import { z } from "zod";

/** Where the broker is, and the names there. */
export interface RelayBrokerOptions {
  /** `amqp://` or `amqps://`; several for the nodes of a cluster. */
  readonly url: string | readonly string[];
  /**
   * Prefix of exchanges and queues.
   * @default "waybill"
   */
  readonly prefix?: string | undefined;
  /**
   * `assert` declares the exchanges at connect and a queue before its first message; `check` only
   * looks for the exchanges; `off` does neither.
   * @default "assert"
   */
  readonly topology?: TopologyMode | undefined;
}

/** Options of {@link createRelay}. */
export interface RelayOptions {
  /**
   * PostgreSQL URL of the relay's own connections: one to read, one to listen, up to six for upkeep.
   * Direct, not through a transaction pooler, where there is the choice.
   */
  readonly databaseUrl: string;
  readonly broker: RelayBrokerOptions;
  /** @default "waybill" */
  readonly schema?: string | undefined;
  /** A pino logger fits. @default pino at level info, to stdout */
  readonly logger?: Logger | undefined;
  /** Shown in the database, in logs and in the management UI. @default the host's name */
  readonly name?: string | undefined;
  /**
   * Rows read from the outbox in one round trip; 1 to 5000.
   * @default 1000
   */
  readonly batchSize?: number | undefined;
  /**
   * Payload read from the outbox in one round trip, in bytes; 1 KiB to 64 MiB. Up to three pages are
   * in memory at a time.
   * @default 4194304
   */
  readonly batchBytes?: number | undefined;
  /**
   * Time for outstanding confirms after the stop signal, in milliseconds; 0 to 10 minutes.
   * @default 5000
   */
  readonly graceMs?: number | undefined;
  /**
   * How long the term lasts without being renewed, in milliseconds; 500 to 60000. After a crash of
   * the relay another one takes over as soon as it ends.
   * @default 2500
   */
  readonly leaseMs?: number | undefined;
  /**
   * Limit of the wait for the broker's confirm, in milliseconds, alarms of the broker not counted;
   * 100 to 600000.
   * @default 10000
   */
  readonly confirmTimeoutMs?: number | undefined;
  /**
   * Longest pause between two looks at the outbox and the timers, in milliseconds; 20 to 10000. Hints
   * of new jobs shorten it.
   * @default 400
   */
  readonly idlePollMs?: number | undefined;
  /**
   * How long published rows stay in the outbox at least, in milliseconds; 1 hour to 1 year. Rows of
   * unfinished jobs stay longer.
   * @default 259200000
   */
  readonly outboxRetentionMs?: number | undefined;
  /**
   * How long ended jobs are remembered, in milliseconds; at least a day longer than
   * `outboxRetentionMs`, at most 2 years. A copy of a job that comes later runs again. Jobs with a dead
   * letter are remembered as long as that is.
   * @default 1209600000
   */
  readonly inboxRetentionMs?: number | undefined;
  /**
   * How long failures, results, dead letters, checkpoints, progress and the audit log are kept, in
   * milliseconds; 1 hour to 10 years. What belongs to an unfinished job stays longer.
   * @default 2592000000
   */
  readonly historyRetentionMs?: number | undefined;
  /**
   * Keys, made by `createKeyRing`, of which the first signs every message. Workers with the option
   * `signing` run no other ones.
   */
  readonly signing?: KeyRing | undefined;
}

/** {@link RelayOptions} with every default filled in. */
export interface ResolvedRelayOptions {
  readonly databaseUrl: string;
  readonly broker: {
    readonly url: string | readonly string[];
    readonly prefix: string;
    readonly topology: TopologyMode;
  };
  readonly schema: string;
  readonly logger: Logger;
  readonly name: string;
  readonly batchSize: number;
  readonly batchBytes: number;
  readonly graceMs: number;
  readonly leaseMs: number;
  readonly confirmTimeoutMs: number;
  readonly idlePollMs: number;
  readonly outboxRetentionMs: number;
  readonly inboxRetentionMs: number;
  readonly historyRetentionMs: number;
  readonly signing?: KeyRing | undefined;
}

const hour = 3_600_000;
const day = 24 * hour;

/** A text that one of core's checks accepts; its message goes into the list of problems. */
const checked = (check: (text: string) => string): z.ZodType<string, string> =>
  z.string().superRefine((text, context) => {
    try {
      check(text);
    } catch (error) {
      context.addIssue({ code: "custom", message: (error as Error).message });
    }
  });

const urlOf = (protocols: readonly string[], example: string): z.ZodType<string, string> =>
  z.string().refine(
    (text) => {
      const url = URL.parse(text);
      return url !== null && protocols.includes(url.protocol);
    },
    // The text itself may hold a password.
    { message: `expected a URL like ${example}` },
  );

const brokerUrl = urlOf(["amqp:", "amqps:"], "amqp://user:password@host:5672/vhost");

const isLogger = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  ["child", "debug", "info", "warn", "error"].every(
    (name) => typeof (value as Record<string, unknown>)[name] === "function",
  );

const relayOptions: z.ZodType<ResolvedRelayOptions, RelayOptions> = z
  .strictObject({
    databaseUrl: urlOf(["postgres:", "postgresql:"], "postgres://user:password@host:5432/database"),
    broker: z.strictObject({
      url: z.union([brokerUrl, z.array(brokerUrl).min(1)]),
      prefix: checked(checkTopologyPrefix).default("waybill"),
      topology: z.enum(["assert", "check", "off"]).default("assert"),
    }),
    schema: checked(checkSchemaName).default("waybill"),
    logger: z
      .custom<Logger>(isLogger, { message: "expected a logger such as pino's" })
      .default(() => pino({ level: "info" })),
    name: z.string().min(1).max(100).default(hostname),
    batchSize: z.int().min(1).max(5_000).default(1_000),
    batchBytes: z
      .int()
      .min(1_024)
      .max(64 * 1024 * 1024)
      .default(4 * 1024 * 1024),
    graceMs: z.int().min(0).max(600_000).default(5_000),
    leaseMs: z.int().min(500).max(60_000).default(2_500),
    confirmTimeoutMs: z.int().min(100).max(600_000).default(10_000),
    idlePollMs: z.int().min(20).max(10_000).default(400),
    outboxRetentionMs: z
      .int()
      .min(hour)
      .max(366 * day)
      .default(3 * day),
    inboxRetentionMs: z
      .int()
      .min(hour)
      .max(732 * day)
      .default(14 * day),
    historyRetentionMs: z
      .int()
      .min(hour)
      .max(3_660 * day)
      .default(30 * day),
    signing: z.custom<KeyRing>(isKeyRing, { message: keyRingRule }).optional(),
  })
  .refine(
    ({ outboxRetentionMs, inboxRetentionMs }) => inboxRetentionMs >= outboxRetentionMs + day,
    {
      path: ["inboxRetentionMs"],
      message:
        "must be at least outboxRetentionMs + 86400000 (a day): what the outbox still holds may be " +
        "dispatched again, and runs twice where its job was forgotten",
    },
  );

/**
 * Fills in the defaults.
 *
 * @throws ConfigError that names every problem at once
 */
export function resolveRelayOptions(options: RelayOptions): ResolvedRelayOptions {
  return parseOptions("createRelay", relayOptions, options);
}
