import {
  checkKey,
  ConfigError,
  type ConfigIssue,
  HeadersError,
  isTerminalEvent,
  type TerminalEvent,
  waybillHeaders,
} from "@waybill/core";

/** How long an idempotency key stands for its job. */
export type IdempotencyMode = "for_a_time" | "until_start" | "until_end";

/** Options of one enqueue. */
export interface EnqueueOptions {
  /**
   * Identity of the logical work, 1 to 255 bytes, scoped by the job's name. While the key is taken, an
   * enqueue writes nothing and gives the first job's id back.
   *
   * This is also the answer to a COMMIT whose reply was lost: run the whole transaction again with
   * the same key, and the job exists once.
   */
  readonly idempotencyKey?: string | undefined;
  /**
   * `for_a_time`: the key is taken for {@link EnqueueOptions.idempotencyTtlMs}; `until_start`: until a
   * worker has claimed the job; `until_end`: until it has succeeded, failed or been cancelled.
   * @default "for_a_time", with `debounceMs` "until_start"
   */
  readonly idempotencyMode?: IdempotencyMode | undefined;
  /**
   * Time that a key of mode `for_a_time` is taken, in milliseconds; 1 to 3650 days.
   * @default 86400000
   */
  readonly idempotencyTtlMs?: number | undefined;
  /**
   * Waits until no job of the same key has been enqueued for so many milliseconds, and keeps the latest
   * payload; 1 to 3650 days. While the job waits for that, or for its turn in a governed queue, an
   * enqueue with its key gives it the new payload, version, headers, priority, correlation id and expiry,
   * and puts it off. Needs `idempotencyKey`; not together with `runAt` or `delayMs`.
   *
   * A job that is due, at the broker or running is left as it is, and the enqueue is a new job: the
   * latest payload always runs.
   */
  readonly debounceMs?: number | undefined;
  /**
   * But no later than so many milliseconds after the first enqueue; `debounceMs` to 3650 days.
   * @default 10 times debounceMs
   */
  readonly debounceMaxMs?: number | undefined;
  /** Not before this instant. Not together with `delayMs`. */
  readonly runAt?: Date | undefined;
  /** Not before this many milliseconds from now by the database's clock; up to 3650 days. */
  readonly delayMs?: number | undefined;
  /**
   * A job that has not started by then ends as cancelled, and one that has failed is not tried again.
   * One that runs goes on, also elsewhere where its worker died or was stopped.
   */
  readonly expiresAt?: Date | undefined;
  /**
   * Integer, higher first, -100 to 100.
   * @default the job definition's
   */
  readonly priority?: number | undefined;
  /** Jobs of one key are published in the order in which their transactions committed; 1 to 255 bytes. */
  readonly orderingKey?: string | undefined;
  /**
   * Whose job it is, a tenant's for example; 1 to 255 bytes. Governed queues limit and share by it; see
   * `keys` of `defineQueue`.
   */
  readonly concurrencyKey?: string | undefined;
  /** Travels with the message, and is `job.correlationId` in the handler; at most 255 bytes. */
  readonly correlationId?: string | undefined;
  /**
   * Headers of the message, as strings; a `traceparent` travels like any other. Names that begin
   * with `waybill-` or `x-`, and `CC` and `BCC`, are refused. At most 48 KiB in all.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Event that is published when the job ends, made by `defineTerminalEvent`; null for none. Of jobs
   * in a queue only.
   * @default the job definition's
   */
  readonly onTerminal?: TerminalEvent | null | undefined;
  /**
   * Publishes to this exchange with this routing key, for consumers that are not Waybill's. The job
   * then has no queue here, and no state.
   */
  readonly route?: { readonly exchange: string; readonly routingKey: string } | undefined;
  /**
   * Allows a connection that is not in a transaction, where there is no other write.
   * @default false
   */
  readonly autocommit?: boolean | undefined;
}

/** Longest AMQP short string, in bytes. */
const shortBytesMax = 255;
/** Largest table of headers, in bytes; the rest of RabbitMQ's frame is for Waybill's own. */
export const headersBytesMax = 49_152;
/** Longest delay, in milliseconds: 3650 days. */
export const delayMsMax = 315_360_000_000;
/** PostgreSQL reads ISO dates with years of four digits. */
const instantMax = Date.UTC(9_999, 11, 31);

/** True for a date that PostgreSQL takes, and that is not before 1970. */
export const isInstant = (value: unknown): boolean =>
  value instanceof Date && value.getTime() >= 0 && value.getTime() <= instantMax;

const bytes = (text: string): number => Buffer.byteLength(text, "utf8");

function textFault(text: unknown, what: string): string | undefined {
  if (typeof text !== "string") return `${what} is a ${typeof text}, not a string`;
  if (text.includes("\u0000")) return `${what} holds a NUL character`;
  if (!text.isWellFormed()) return `${what} holds a lone surrogate`;
  return undefined;
}

const waybillNames = new Set<string>(Object.values(waybillHeaders));

function nameFault(name: string): string | undefined {
  const shown = JSON.stringify(name.slice(0, 80));
  const lower = name.toLowerCase();
  if (lower.startsWith("waybill-") || waybillNames.has(lower)) {
    return `${shown} is a header of Waybill's own`;
  }
  if (lower.startsWith("x-")) return `${shown}: names that begin with "x-" belong to the broker`;
  if (lower === "cc" || lower === "bcc") return `${shown} would send copies to other queues`;
  if (name === "__proto__") return `${shown} is refused`;
  if (name === "" || bytes(name) > 128) return `${shown} is not 1 to 128 bytes long`;
  return textFault(name, "a name");
}

/**
 * Checks the headers that an application gives.
 *
 * @throws HeadersError that names the header, never its value
 */
export function checkHeaders(jobName: string, headers: Readonly<Record<string, string>>): void {
  const fail = (fact: string): never => {
    throw new HeadersError(`Cannot enqueue job "${jobName}": header ${fact}.`);
  };
  if (typeof headers !== "object" || headers === null || Array.isArray(headers)) {
    return fail("object expected, with names as keys and strings as values");
  }
  let total = 0;
  for (const [name, value] of Object.entries(headers)) {
    const fault =
      nameFault(name) ?? textFault(value, `${JSON.stringify(name.slice(0, 80))}: its value`);
    if (fault !== undefined) fail(fault);
    // A field of an AMQP table: length of the name, name, type, length of the value, value.
    total += 1 + bytes(name) + 1 + 4 + bytes(value);
  }
  if (total > headersBytesMax) {
    fail(`table of ${total} bytes, the limit is ${headersBytesMax}; put the data into the payload`);
  }
}

const knownOptions: ReadonlySet<string> = new Set<keyof EnqueueOptions>([
  "idempotencyKey",
  "idempotencyMode",
  "idempotencyTtlMs",
  "debounceMs",
  "debounceMaxMs",
  "runAt",
  "delayMs",
  "expiresAt",
  "priority",
  "orderingKey",
  "concurrencyKey",
  "correlationId",
  "headers",
  "onTerminal",
  "route",
  "autocommit",
]);

interface Rule {
  readonly holds: (value: unknown) => boolean;
  readonly message: string;
}

const integer = (min: number, max: number): Rule => ({
  holds: (value) => Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max,
  message: `must be an integer from ${min} to ${max}`,
});

const instant: Rule = {
  holds: isInstant,
  message: "must be a valid Date between 1970 and 9999",
};

const shortText: Rule = {
  holds: (value) =>
    typeof value === "string" &&
    bytes(value) <= shortBytesMax &&
    textFault(value, "") === undefined,
  message: `must be a text of at most ${shortBytesMax} bytes`,
};

const rules: { readonly [K in keyof EnqueueOptions]?: Rule } = {
  idempotencyMode: {
    holds: (value) => value === "for_a_time" || value === "until_start" || value === "until_end",
    message: 'must be "for_a_time", "until_start" or "until_end"',
  },
  idempotencyTtlMs: integer(1, delayMsMax),
  debounceMs: integer(1, delayMsMax),
  debounceMaxMs: integer(1, delayMsMax),
  runAt: instant,
  delayMs: integer(0, delayMsMax),
  expiresAt: instant,
  priority: integer(-100, 100),
  correlationId: shortText,
  onTerminal: {
    holds: (value) => value === null || isTerminalEvent(value),
    message: "must be an event made by defineTerminalEvent, or null",
  },
  route: {
    holds: (value) => {
      if (typeof value !== "object" || value === null) return false;
      const { exchange, routingKey } = value as { exchange?: unknown; routingKey?: unknown };
      return shortText.holds(exchange) && shortText.holds(routingKey);
    },
    message: `must be { exchange, routingKey }, texts of at most ${shortBytesMax} bytes`,
  },
  autocommit: { holds: (value) => typeof value === "boolean", message: "must be true or false" },
};

/** What does not fit together of a debounced enqueue. */
function debounceIssues(options: EnqueueOptions): ConfigIssue[] {
  const { debounceMs, debounceMaxMs } = options;
  if (debounceMs === undefined) {
    if (debounceMaxMs === undefined) return [];
    return [{ path: "debounceMaxMs", message: "has no meaning without debounceMs" }];
  }
  const issues: ConfigIssue[] = [];
  if (options.idempotencyKey === undefined) {
    issues.push({ path: "debounceMs", message: "needs an idempotencyKey" });
  }
  for (const path of ["runAt", "delayMs"] as const) {
    if (options[path] !== undefined) {
      issues.push({ path, message: "cannot be given together with debounceMs" });
    }
  }
  if (options.idempotencyMode !== undefined && options.idempotencyMode !== "until_start") {
    issues.push({ path: "idempotencyMode", message: 'must be "until_start" with debounceMs' });
  }
  if (debounceMaxMs !== undefined && debounceMaxMs < debounceMs) {
    issues.push({ path: "debounceMaxMs", message: `must be at least debounceMs, ${debounceMs}` });
  }
  return issues;
}

function issuesOf(options: EnqueueOptions, kind: "job" | "event"): ConfigIssue[] {
  const issues: ConfigIssue[] = [];
  for (const path of Object.keys(options)) {
    if (!knownOptions.has(path)) issues.push({ path, message: "is not an option of enqueue" });
  }
  for (const [path, rule] of Object.entries(rules)) {
    const value = options[path as keyof EnqueueOptions];
    if (value !== undefined && !rule.holds(value)) issues.push({ path, message: rule.message });
  }
  if (options.runAt !== undefined && options.delayMs !== undefined) {
    issues.push({ path: "delayMs", message: "cannot be given together with runAt" });
  }
  const mode = options.debounceMs === undefined ? options.idempotencyMode : "until_start";
  if (options.idempotencyTtlMs !== undefined && mode !== undefined && mode !== "for_a_time") {
    issues.push({ path: "idempotencyTtlMs", message: `has no meaning with mode "${mode}"` });
  }
  issues.push(...debounceIssues(options));
  const { onTerminal } = options;
  if (onTerminal !== undefined && onTerminal !== null) {
    const where = kind === "event" ? "of an event" : "with route";
    if (kind === "event" || options.route !== undefined) {
      issues.push({
        path: "onTerminal",
        message: `has no meaning ${where}: only a job in a queue ends`,
      });
    }
  }
  return issues;
}

/**
 * Checks the options of an enqueue, before anything is sent to the database.
 *
 * @throws ConfigError with every problem, NameError for a key, HeadersError for a header
 */
export function checkEnqueueOptions(
  jobName: string,
  options: EnqueueOptions,
  kind: "job" | "event" = "job",
): void {
  const subject = `enqueue("${jobName}")`;
  if (typeof options !== "object" || options === null) {
    throw new ConfigError(subject, [{ path: "", message: "must be an object" }]);
  }
  const issues = issuesOf(options, kind);
  if (issues.length > 0) throw new ConfigError(subject, issues);
  if (options.idempotencyKey !== undefined) checkKey("idempotency key", options.idempotencyKey);
  if (options.orderingKey !== undefined) checkKey("ordering key", options.orderingKey);
  if (options.concurrencyKey !== undefined) checkKey("concurrency key", options.concurrencyKey);
  if (options.headers !== undefined) checkHeaders(jobName, options.headers);
}

/**
 * Checks the options of an enqueue whose payload is encrypted.
 *
 * @throws ConfigError with every option that encryption does not go with
 */
export function checkEncryptable(jobName: string, { debounceMs, route }: EnqueueOptions): void {
  const issues: ConfigIssue[] = [];
  if (debounceMs !== undefined) {
    issues.push({
      path: "debounceMs",
      message:
        "does not go with the outbox's encryption: an encrypted payload opens for the id that it was enqueued with, " +
        "and here it would get that of the job that waits; use an outbox without encryption",
    });
  }
  if (route !== undefined) {
    issues.push({
      path: "route",
      message:
        "does not go with the outbox's encryption: who receives it is no worker, and could not open it; " +
        "use an outbox without encryption",
    });
  }
  if (issues.length > 0) throw new ConfigError(`enqueue("${jobName}")`, issues);
}

/** A row of the array that `waybill.enqueue` takes. */
export type EnqueueRow = Readonly<Record<string, unknown>>;

/** What a row has in its headers beside those of the application. */
export interface OwnHeaders {
  readonly appId?: string | undefined;
  readonly onTerminal?: string | undefined;
}

/** The part of a row that the options give. */
export function rowOfOptions(options: EnqueueOptions, own: OwnHeaders = {}): EnqueueRow {
  const headers = {
    ...(own.appId === undefined ? {} : { "app-id": own.appId }),
    ...options.headers,
    ...(own.onTerminal === undefined ? {} : { [waybillHeaders.onTerminal]: own.onTerminal }),
    ...(options.concurrencyKey === undefined
      ? {}
      : { [waybillHeaders.concurrencyKey]: options.concurrencyKey }),
  };
  return {
    idempotency_key: options.idempotencyKey,
    idempotency_mode: options.idempotencyMode,
    idempotency_ttl_ms: options.idempotencyTtlMs,
    debounce_ms: options.debounceMs,
    debounce_max_ms: options.debounceMaxMs,
    run_at: options.runAt?.toISOString(),
    delay_ms: options.delayMs,
    expires_at: options.expiresAt?.toISOString(),
    ordering_key: options.orderingKey,
    correlation_id: options.correlationId,
    headers: Object.keys(headers).length === 0 ? undefined : headers,
    exchange: options.route?.exchange,
    routing_key: options.route?.routingKey,
  };
}
