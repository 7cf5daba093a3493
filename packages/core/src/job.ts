import { z } from "zod";
import { defaultRetryPolicy, type ResolvedRetryPolicy, type RetryPolicy } from "./backoff.ts";
import type { ConfigIssue } from "./errors.ts";
import { checkQueueName, checkTypeName } from "./names.ts";
import { parseOptions } from "./options.ts";
import { dependencyName } from "./queue-settings.ts";
import type { InputOf, OutputOf, StandardSchema } from "./standard-schema.ts";
import { isTerminalEvent, type TerminalEvent } from "./terminal-event.ts";
import { type Upcaster, upcasterProblem, type UpcasterSteps, upcasterSteps } from "./upcasters.ts";

/** What a job definition says about running its jobs. */
export interface JobOptions {
  /**
   * Queue that the job goes to.
   * @default "default"
   */
  readonly queue?: string | undefined;
  /**
   * Version of the payload's shape; 1 to 32767. A worker that does not know a version leaves the
   * job for one that does.
   * @default 1
   */
  readonly version?: number | undefined;
  /**
   * Priority where an enqueue gives none; integer, higher first, -100 to 100.
   * @default 0
   */
  readonly priority?: number | undefined;
  /** Attempts and delays; see {@link RetryPolicy}. */
  readonly retry?: RetryPolicy | undefined;
  /**
   * Time an attempt may take, in milliseconds; 0 for no limit. After it `job.signal` aborts and
   * the attempt fails as `timeout`.
   * @default 0
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Time after which an attempt's slot is given up and the attempt fails as `timeout`, even if the
   * handler goes on; in milliseconds, larger than `timeoutMs`, and not without it. 0: `timeoutMs`
   * and the worker's `abandonMs`.
   * @default 0
   */
  readonly hardTimeoutMs?: number | undefined;
  /**
   * Makes payloads of earlier versions ones of this version: `{ 1: (v1) => v2, 2: (v2) => v3 }`, one
   * step from each version to the next, up to this version without a gap. What a step is given was
   * parsed, but no schema has checked it; what the last one answers is checked.
   */
  readonly upcasters?: UpcasterSteps | undefined;
  /**
   * Event that is published when a job ends, made by `defineTerminalEvent`. An enqueue may name
   * another one, or none.
   */
  readonly onTerminal?: TerminalEvent | undefined;
  /**
   * Names of the dependencies without which its jobs wait, 1 to 10; see `defineDependency`. The worker
   * must know them. It makes the job's queue a governed one.
   */
  readonly dependsOn?: readonly string[] | undefined;
}

/** The numbers and names of {@link JobOptions}, with every default filled in. */
export interface ResolvedJobOptions {
  readonly queue: string;
  readonly version: number;
  readonly priority: number;
  readonly retry: ResolvedRetryPolicy;
  readonly timeoutMs: number;
  /** 0: `timeoutMs` and the worker's `abandonMs`. */
  readonly hardTimeoutMs: number;
}

/** A kind of job: its name, its schemas, its policy. Made by {@link defineJob}. */
export interface JobDefinition<
  Name extends string = string,
  Payload extends StandardSchema = StandardSchema,
  // oxlint-disable-next-line typescript/no-explicit-any -- any definition must fit the bare type
  Checkpoint extends StandardSchema | undefined = any,
  // oxlint-disable-next-line typescript/no-explicit-any -- as above
  Result extends StandardSchema | undefined = any,
> {
  readonly name: Name;
  readonly payload: Payload;
  readonly checkpoint: Checkpoint;
  readonly result: Result;
  readonly options: ResolvedJobOptions;
  /** Steps from earlier versions, by the version that they begin with. */
  readonly upcasters: ReadonlyMap<number, Upcaster>;
  /** Name of the event that is published when a job ends. */
  readonly onTerminal: string | undefined;
  /** Names of the dependencies without which its jobs wait. */
  readonly dependsOn: readonly string[];
}

/** What `enqueue` takes as payload of a job. */
export type PayloadInput<J extends JobDefinition> = InputOf<J["payload"]>;
/** What a handler gets as payload of a job. */
export type PayloadOutput<J extends JobDefinition> = OutputOf<J["payload"]>;
/** A job's checkpoint, as a handler gets it. */
export type CheckpointOf<J extends JobDefinition> = J["checkpoint"] extends StandardSchema
  ? OutputOf<J["checkpoint"]>
  : never;
/** What a handler saves as a job's checkpoint. */
export type CheckpointInput<J extends JobDefinition> = J["checkpoint"] extends StandardSchema
  ? InputOf<J["checkpoint"]>
  : never;
/** What a handler returns. */
export type ResultOf<J extends JobDefinition> = J["result"] extends StandardSchema
  ? InputOf<J["result"]>
  : void;

const day = 86_400_000;
const versionMax = 32_767;

const retryPolicy: z.ZodType<ResolvedRetryPolicy, RetryPolicy> = z
  .strictObject({
    maxAttempts: z.int().min(1).max(100).default(defaultRetryPolicy.maxAttempts),
    initialDelayMs: z.int().min(0).max(day).default(defaultRetryPolicy.initialDelayMs),
    maxDelayMs: z
      .int()
      .min(0)
      .max(30 * day)
      .default(defaultRetryPolicy.maxDelayMs),
    factor: z.number().min(1).max(10).default(defaultRetryPolicy.factor),
    jitter: z.enum(["full", "equal", "none"]).default(defaultRetryPolicy.jitter),
  })
  .refine((policy) => policy.maxDelayMs >= policy.initialDelayMs, {
    path: ["maxDelayMs"],
    message: "must not be smaller than initialDelayMs",
  });

interface ParsedJobOptions extends ResolvedJobOptions {
  readonly upcasters: ReadonlyMap<number, Upcaster>;
  readonly onTerminal?: TerminalEvent | undefined;
  readonly dependsOn?: readonly string[] | undefined;
}

/** What does not fit together; each value alone may be anything, which the schema reports. */
function misfitsOf(options: JobOptions): ConfigIssue[] {
  const { version = 1, timeoutMs = 0, hardTimeoutMs = 0, upcasters } = options;
  const issues: ConfigIssue[] = [];
  if (hardTimeoutMs > 0 && hardTimeoutMs <= timeoutMs) {
    issues.push({ path: "hardTimeoutMs", message: "must be larger than timeoutMs" });
  } else if (hardTimeoutMs > 0 && timeoutMs === 0) {
    issues.push({ path: "hardTimeoutMs", message: "has no meaning without timeoutMs" });
  }
  const isVersion = Number.isInteger(version) && version <= versionMax;
  if (typeof upcasters === "object" && upcasters !== null && isVersion) {
    const message = upcasterProblem(Object.keys(upcasters), version);
    if (message !== undefined) issues.push({ path: "upcasters", message });
  }
  return issues;
}

const jobOptions: z.ZodType<ParsedJobOptions, JobOptions> = z.strictObject({
  queue: z.string().default("default"),
  version: z.int().min(1).max(versionMax).default(1),
  priority: z.int().min(-100).max(100).default(0),
  retry: retryPolicy.default(defaultRetryPolicy),
  timeoutMs: z
    .int()
    .min(0)
    .max(30 * day)
    .default(0),
  hardTimeoutMs: z
    .int()
    .min(0)
    .max(31 * day)
    .default(0),
  upcasters: upcasterSteps.default(() => new Map()),
  onTerminal: z
    .custom<TerminalEvent>(isTerminalEvent, {
      message: "expected an event made by defineTerminalEvent",
    })
    .optional(),
  dependsOn: z.array(dependencyName).min(1).max(10).optional(),
});

/**
 * Defines a job. The definition is shared by the service that enqueues it and the worker that
 * handles it.
 *
 * @throws NameError for a name or queue outside the rules of names
 * @throws ConfigError for options that are unknown or out of bounds
 *
 * @example
 * const sendWelcome = defineJob({
 *   name: "email.welcome",
 *   queue: "emails",
 *   payload: z.object({ to: z.email() }),
 * });
 */
export function defineJob<
  const Name extends string,
  Payload extends StandardSchema,
  Checkpoint extends StandardSchema | undefined = undefined,
  Result extends StandardSchema | undefined = undefined,
>(
  definition: {
    readonly name: Name;
    readonly payload: Payload;
    readonly checkpoint?: Checkpoint;
    readonly result?: Result;
  } & JobOptions,
): JobDefinition<Name, Payload, Checkpoint, Result> {
  const { name, payload, checkpoint, result, ...options } = definition;
  checkTypeName(name);
  const { upcasters, onTerminal, dependsOn, ...resolved } = parseOptions(
    `defineJob("${name}")`,
    jobOptions,
    options,
    misfitsOf,
  );
  checkQueueName(resolved.queue);
  return Object.freeze({
    name,
    payload,
    checkpoint: checkpoint as Checkpoint,
    result: result as Result,
    options: Object.freeze(resolved),
    upcasters,
    onTerminal: onTerminal?.name,
    dependsOn: dependsOn ?? [],
  });
}
