import { hostname } from "node:os";
import {
  checkQueueName,
  checkSchemaName,
  checkTopologyPrefix,
  checkTypeName,
  type ConfigIssue,
  type DecoderName,
  decoderNames,
  type DependencyDefinition,
  isDependency,
  isKeyRing,
  type KeyRing,
  keyRingRule,
  type Logger,
  parseOptions,
  type QueueDefinition,
} from "@waybill/core";
import type { Database } from "@waybill/postgres";
import type { TopologyMode } from "@waybill/rabbitmq";
import { pino } from "pino";
import { z } from "zod";
import { type RecycleOptions, recycleOptions } from "./recycle.ts";
import { contradictions, derived } from "./times.ts";

/** What a worker does with messages whose jobs the database does not know any more. */
export type OrphanPolicy = "park" | "run" | "drop";

/** How a worker consumes one queue or subscription. */
export interface QueueOptions {
  /**
   * Jobs of the queue that this process runs at a time; 1 to 1000. A transactional handler holds a
   * connection of the data layer's pool while it runs.
   */
  readonly concurrency: number;
  /**
   * Format of messages that are not Waybill's; see the guide on foreign messages.
   * @default "json"
   */
  readonly decoder?: DecoderName | undefined;
  /** Job that messages without a type are; by default the queue's only job, if there is one. */
  readonly untypedJob?: string | undefined;
  /**
   * What `defineQueue` made for this queue. The worker writes it into the database at its start, in the
   * place of what was declared before; an operator's settings win over it.
   * @default what is in the database holds
   */
  readonly define?: QueueDefinition | undefined;
  /**
   * What becomes of messages without a signature, where the worker has keys to check them: for queues
   * that others publish to, who have none.
   * @default the worker's
   */
  readonly unsigned?: "refuse" | "accept" | undefined;
}

/** Where the broker is, and the names there. */
export interface WorkerBrokerOptions {
  /** `amqp://` or `amqps://`; several for the nodes of a cluster. */
  readonly url: string | readonly string[];
  /**
   * Prefix of exchanges and queues.
   * @default "waybill"
   */
  readonly prefix?: string | undefined;
  /**
   * `assert` declares this worker's queues, `check` only looks, `off` does neither.
   * @default "assert"
   */
  readonly topology?: TopologyMode | undefined;
}

/** Options of {@link createWorker}. */
export interface WorkerOptions<Tx> {
  /** The application's data layer: transactions of handlers run on it. */
  readonly database: Database<Tx>;
  /** PostgreSQL URL of the worker's own connections, at most 5: claims, outcomes, heartbeat. */
  readonly databaseUrl: string;
  readonly broker: WorkerBrokerOptions;
  /** Queues to consume. A subscription may be listed too; if it is not, its concurrency is 10. */
  readonly queues: Readonly<Record<string, QueueOptions>>;
  /** @default "waybill" */
  readonly schema?: string | undefined;
  /** A pino logger fits. @default pino at level info, to stdout */
  readonly logger?: Logger | undefined;
  /** Shown in the database, in logs and in the management UI. @default the host's name */
  readonly name?: string | undefined;
  /**
   * Time for running jobs to finish after the stop signal, in milliseconds; 0 to 1 hour.
   * @default 30000
   */
  readonly graceMs?: number | undefined;
  /**
   * Crashes of workers that one job may cause before it is dead-lettered as `crashed`; 0 to 100.
   * @default 3
   */
  readonly crashBudget?: number | undefined;
  /**
   * How long a message of a type or version unknown here waits for a worker that knows it, in
   * milliseconds; up to 30 days.
   * @default 3600000
   */
  readonly noHandlerWindowMs?: number | undefined;
  /**
   * What to do with messages that the database published before it was restored to an earlier time, or
   * failed over with the loss of commits, and whose jobs it does not know any more: `park` keeps them until
   * an operator releases them, `run` runs them, `drop` acknowledges them.
   * @default "park"
   */
  readonly orphans?: OrphanPolicy | undefined;
  /**
   * How long the worker owns its jobs after its last heartbeat, in milliseconds; 1 second to 10
   * minutes, at least three heartbeats. A worker that is frozen, or cut off from the database, is
   * taken for dead after it.
   * @default 15000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Milliseconds between two heartbeats.
   * @default a third of leaseMs
   */
  readonly heartbeatMs?: number | undefined;
  /**
   * The broker's `consumer_timeout`, in milliseconds; 10 seconds to 10 days. The broker closes the
   * channel of a consumer that holds a delivery for longer.
   * @default 1800000
   */
  readonly consumerTimeoutMs?: number | undefined;
  /**
   * How long a delivery is held at most, in milliseconds. A job that runs for longer is protected by
   * its lease alone, and its delivery is acked. At most four fifths of `consumerTimeoutMs`.
   * @default half of consumerTimeoutMs, at most 10 minutes
   */
  readonly holdMs?: number | undefined;
  /**
   * How long a handler may go on after its timeout or a cancel before its slot is given up, in
   * milliseconds. A definition's `hardTimeoutMs` goes before it.
   * @default 5000
   */
  readonly abandonMs?: number | undefined;
  /**
   * A handler that blocks the event loop for so long is named in the log, in milliseconds; 100 to 1 hour.
   * @default 1000
   */
  readonly blockedWarnMs?: number | undefined;
  /**
   * A handler that blocks the event loop for so long loses its jobs to other workers, in
   * milliseconds; up to 1 day.
   * @default 300000
   */
  readonly blockedMaxMs?: number | undefined;
  /** When the worker ends by itself. @default never */
  readonly recycle?: RecycleOptions | undefined;
  /**
   * Every dependency that a job or queue of this worker names in `dependsOn`; written into the database
   * at its start, where the settings of the worker hold that started last.
   * @default []
   */
  readonly dependencies?: readonly DependencyDefinition[] | undefined;
  /**
   * Keys, made by `createKeyRing`, of which one must have signed each message. Others are dead-lettered
   * as `unauthentic`, under an id of their own, and never run.
   */
  readonly signing?: KeyRing | undefined;
  /**
   * What becomes of messages without a signature: `accept` is for the time until the relay signs
   * everything. A signature that does not fit is refused in any case. Needs `signing`.
   * @default "refuse"
   */
  readonly unsigned?: "refuse" | "accept" | undefined;
  /**
   * Keys, made by `createKeyRing`, that open encrypted payloads. Others run as they are; a payload
   * that does not open fails for good as `validation`, and its dead letter can be retried.
   */
  readonly encryption?: KeyRing | undefined;
}

/** Options with every default filled in. */
export interface ResolvedWorkerOptions {
  readonly databaseUrl: string;
  readonly broker: {
    readonly url: string | readonly string[];
    readonly prefix: string;
    readonly topology: TopologyMode;
  };
  readonly queues: Readonly<
    Record<
      string,
      {
        readonly concurrency: number;
        readonly decoder: DecoderName;
        readonly untypedJob?: string | undefined;
        readonly define?: QueueDefinition | undefined;
        readonly unsigned?: "refuse" | "accept" | undefined;
      }
    >
  >;
  readonly schema: string;
  readonly logger: Logger;
  readonly name: string;
  readonly graceMs: number;
  readonly crashBudget: number;
  readonly noHandlerWindowMs: number;
  readonly orphans: OrphanPolicy;
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  readonly consumerTimeoutMs: number;
  readonly holdMs: number;
  readonly abandonMs: number;
  readonly blockedWarnMs: number;
  readonly blockedMaxMs: number;
  readonly recycle: RecycleOptions;
  readonly dependencies: readonly DependencyDefinition[];
  readonly signing?: KeyRing | undefined;
  readonly unsigned?: "refuse" | "accept" | undefined;
  readonly encryption?: KeyRing | undefined;
}

/** Concurrency of a subscription that `queues` does not list. */
export const subscriptionConcurrency = 10;

const hour = 3_600_000;

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

const isDatabase = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  "transaction" in value &&
  typeof value.transaction === "function" &&
  "executor" in value &&
  typeof value.executor === "function";

const isLogger = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  ["child", "debug", "info", "warn", "error"].every(
    (name) => typeof (value as Record<string, unknown>)[name] === "function",
  );

const keyRing = z.custom<KeyRing>(isKeyRing, { message: keyRingRule }).optional();
const unsigned = z.enum(["refuse", "accept"]).optional();

const isQueueDefinition = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  "name" in value &&
  typeof value.name === "string" &&
  "settings" in value &&
  typeof value.settings === "object";

/** Definitions of other queues than those that they are given for. */
function misnamed(
  queues: Readonly<Record<string, { readonly define?: QueueDefinition | undefined }>>,
): readonly ConfigIssue[] {
  return Object.entries(queues).flatMap(([queue, { define }]) =>
    define === undefined || define.name === queue
      ? []
      : [
          {
            path: `queues.${queue}.define`,
            message: `is the definition of "${define.name}"; give it to that queue, or define "${queue}"`,
          },
        ],
  );
}

/** What is said of unsigned messages by a worker that checks none. */
function unsignable(
  options: Pick<ResolvedWorkerOptions, "signing" | "unsigned" | "queues">,
): readonly ConfigIssue[] {
  if (options.signing !== undefined) return [];
  const queues = Object.entries(options.queues).filter(([, queue]) => queue.unsigned !== undefined);
  return [
    ...(options.unsigned === undefined ? [] : ["unsigned"]),
    ...queues.map(([queue]) => `queues.${queue}.unsigned`),
  ].map((path) => ({ path, message: "has no meaning without signing" }));
}

const workerOptions: z.ZodType<
  ResolvedWorkerOptions & { readonly database: Database<unknown> },
  WorkerOptions<unknown>
> = z
  .strictObject({
    database: z.custom<Database<unknown>>(isDatabase, {
      message: "expected a data layer, such as pgDatabase(pool)",
    }),
    databaseUrl: urlOf(["postgres:", "postgresql:"], "postgres://user:password@host:5432/database"),
    broker: z.strictObject({
      url: z.union([brokerUrl, z.array(brokerUrl).min(1)]),
      prefix: checked(checkTopologyPrefix).default("waybill"),
      topology: z.enum(["assert", "check", "off"]).default("assert"),
    }),
    queues: z.record(
      checked(checkQueueName),
      z.strictObject({
        concurrency: z.int().min(1).max(1_000),
        decoder: z.enum(decoderNames).default("json"),
        untypedJob: checked(checkTypeName).optional(),
        define: z
          .custom<QueueDefinition>(isQueueDefinition, { message: "expected what defineQueue made" })
          .optional(),
        unsigned,
      }),
    ),
    schema: checked(checkSchemaName).default("waybill"),
    logger: z
      .custom<Logger>(isLogger, { message: "expected a logger such as pino's" })
      .default(() => pino({ level: "info" })),
    name: z.string().min(1).max(100).default(hostname),
    graceMs: z.int().min(0).max(hour).default(30_000),
    crashBudget: z.int().min(0).max(100).default(3),
    orphans: z.enum(["park", "run", "drop"]).default("park"),
    noHandlerWindowMs: z
      .int()
      .min(0)
      .max(720 * hour)
      .default(hour),
    leaseMs: z.int().min(1_000).max(600_000).default(15_000),
    heartbeatMs: z.int().min(100).max(200_000).optional(),
    consumerTimeoutMs: z
      .int()
      .min(10_000)
      .max(240 * hour)
      .default(hour / 2),
    holdMs: z
      .int()
      .min(1_000)
      .max(240 * hour)
      .optional(),
    abandonMs: z.int().min(0).max(hour).default(5_000),
    blockedWarnMs: z.int().min(100).max(hour).default(1_000),
    blockedMaxMs: z
      .int()
      .min(1_000)
      .max(24 * hour)
      .default(300_000),
    recycle: recycleOptions.default({}),
    dependencies: z
      .array(
        z.custom<DependencyDefinition>(isDependency, {
          message: "expected a dependency made by defineDependency",
        }),
      )
      .refine((given) => new Set(given.map(({ name }) => name)).size === given.length, {
        message: "names a dependency twice",
      })
      .default([]),
    signing: keyRing,
    unsigned,
    encryption: keyRing,
  })
  .superRefine((options, context) => {
    for (const { path, message } of [
      ...contradictions(options),
      ...misnamed(options.queues),
      ...unsignable(options),
    ]) {
      context.addIssue({ code: "custom", path: path.split("."), message });
    }
  })
  .transform((options) => ({ ...options, ...derived(options) }));

/**
 * Fills in the defaults.
 *
 * @throws ConfigError that names every problem at once
 */
export function resolveWorkerOptions<Tx>(options: WorkerOptions<Tx>): ResolvedWorkerOptions {
  const { database: _, ...resolved } = parseOptions(
    "createWorker",
    workerOptions,
    // Checked by shape only: the transactions' type is between the data layer and the handlers.
    options as unknown as WorkerOptions<unknown>,
  );
  return Object.freeze(resolved);
}
