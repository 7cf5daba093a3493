/**
 * What a worker does for the breakers of dependencies: it says at its start which there are, and tells
 * the database how the attempts of jobs that depend on them have ended. What follows from the counts is
 * decided there, for the whole fleet.
 */

import {
  ConfigError,
  type ConfigIssue,
  type DependencyDefinition,
  type Failure,
  type FailureClass,
  type Logger,
  type QueueDefinition,
} from "@waybill/core";
import { createDependencyStore, type OutcomeReport } from "@waybill/postgres";
import type { OwnDatabase } from "./own-database.ts";
import type { Registration } from "./registry.ts";
import type { Settled } from "./settlements.ts";

/** The queues of a worker, with what was declared of them. */
export type DefinedQueues = Readonly<
  Record<
    string,
    { readonly concurrency: number; readonly define?: QueueDefinition | undefined } | undefined
  >
>;

/** Milliseconds between two statements that tell outcomes. */
const tellEveryMs = 250;
/** Different outcomes that wait to be told, at most. */
const waitingMax = 10_000;

/**
 * Compares what jobs and queues depend on with the worker's dependencies.
 *
 * @throws ConfigError that names each unknown dependency, where it is used, and the known ones
 */
export function checkDependencies(
  definitions: readonly DependencyDefinition[],
  dependents: readonly Pick<Registration<never>, "name" | "dependsOn">[],
  queues: DefinedQueues,
): void {
  const users = new Map<string, Set<string>>();
  const use = (user: string, dependsOn: readonly string[] = []): void => {
    for (const name of dependsOn) users.set(name, (users.get(name) ?? new Set()).add(user));
  };
  for (const { name, dependsOn } of dependents) use(`job "${name}"`, dependsOn);
  for (const [queue, options] of Object.entries(queues)) {
    use(`queue "${queue}"`, options?.define?.settings.dependsOn);
    for (const [type, limits] of Object.entries(options?.define?.settings.types ?? {})) {
      use(`queue "${queue}" for jobs "${type}"`, limits.dependsOn);
    }
  }
  const known = definitions.map(({ name }) => name);
  const issues = [...users]
    .filter(([name]) => !known.includes(name))
    .map(([name, by]): ConfigIssue => {
      const listed = known.length === 0 ? "there are none" : `there are ${known.join(", ")}`;
      return {
        path: "dependencies",
        message: `"${name}" is not among them, and is a dependency of ${[...by].join(", ")}; ${listed}`,
      };
    });
  if (issues.length > 0) throw new ConfigError("createWorker", issues);
}

/**
 * Writes the dependencies into the database.
 *
 * @throws the driver's error
 */
export async function declareDependencies(
  definitions: readonly DependencyDefinition[],
  database: Pick<OwnDatabase, "pool" | "pooled">,
  schema: string,
  logger: Logger,
): Promise<void> {
  if (definitions.length === 0) return;
  const store = createDependencyStore(database.pool, { schema, prepare: !database.pooled });
  const changed = await store.declare(definitions);
  if (changed.length > 0) logger.info({ dependencies: changed }, "dependencies declared");
}

/** A finished attempt. */
export interface FinishedAttempt {
  readonly row: { readonly queue: string };
  readonly registration: { readonly name: string; readonly dependsOn: readonly string[] };
  /** When it began, by the monotonic clock. */
  readonly startedAt: number;
}

type Outcome = Omit<OutcomeReport, "ageMs" | "attempts"> & { readonly startedAt: number };

/** Options of {@link DependencyOutcomes}. */
export interface DependencyOutcomesOptions {
  readonly database: Pick<OwnDatabase, "pool" | "pooled">;
  readonly schema: string;
  readonly logger: Logger;
  /** What a job depends on by its queue and type, besides its own definition. */
  readonly dependsOn: (queue: string, type: string) => readonly string[];
}

/**
 * Tells outcomes, gathered. Those that cannot be written are thrown away: they are of a moment that has
 * passed by then, and no job waits for them.
 */
export class DependencyOutcomes {
  readonly #options: DependencyOutcomesOptions;
  /** Numbers of attempts by outcome and beginning. */
  #waiting = new Map<string, { readonly outcome: Outcome; attempts: number }>();
  #timer: NodeJS.Timeout | undefined;
  #telling: Promise<void> | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor(options: DependencyOutcomesOptions) {
    this.#options = options;
  }

  /** Takes an attempt whose end is recorded. Those that were cancelled or lost tell nothing. */
  note(attempt: FinishedAttempt, state: Settled, failure: Failure | undefined): void {
    const hasEnded = failure === undefined ? state === "succeeded" : isFailed(state);
    if (!hasEnded) return;
    const { row, registration, startedAt } = attempt;
    const ofQueue = this.#options.dependsOn(row.queue, registration.name);
    if (registration.dependsOn.length === 0 && ofQueue.length === 0) return;
    const failureClass = failure?.failureClass ?? null;
    for (const dependency of new Set([...registration.dependsOn, ...ofQueue])) {
      this.#count(dependency, failureClass, startedAt);
    }
    this.#later();
  }

  #count(dependency: string, failureClass: FailureClass | null, startedAt: number): void {
    // To the millisecond, and rather earlier: an attempt that began before a change must not count.
    const outcome = { dependency, failureClass, startedAt: Math.floor(startedAt) };
    const key = `${dependency}\n${failureClass}\n${outcome.startedAt}`;
    const same = this.#waiting.get(key);
    if (same !== undefined) same.attempts += 1;
    else if (this.#waiting.size < waitingMax) this.#waiting.set(key, { outcome, attempts: 1 });
  }

  /** Tells what is still untold. Never rejects. */
  async flush(): Promise<void> {
    await this.#telling;
    await this.#tell();
  }

  /** One statement at a time, the first one at once: a probe's outcome is waited for. */
  #later(): void {
    if (this.#telling !== undefined) return;
    const waitMs = Math.max(0, this.#toldAt + tellEveryMs - performance.now());
    this.#timer ??= setTimeout(() => void this.#tell(), waitMs).unref();
  }

  #tell(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#toldAt = performance.now();
    this.#telling ??= this.#send().finally(() => {
      this.#telling = undefined;
      if (this.#waiting.size > 0) this.#later();
    });
    return this.#telling;
  }

  async #send(): Promise<void> {
    if (this.#waiting.size === 0) return;
    const { database, schema, logger } = this.#options;
    try {
      // First a connection, then the ages: what waits for one would look younger than it is.
      const client = await database.pool.connect();
      const told = [...this.#waiting.values()];
      this.#waiting = new Map();
      try {
        const nowMs = performance.now();
        await createDependencyStore(client, { schema, prepare: !database.pooled }).record(
          told.map(({ outcome: { startedAt, ...outcome }, attempts }) => ({
            ...outcome,
            ageMs: nowMs - startedAt,
            attempts,
          })),
        );
        client.release();
      } catch (error) {
        client.release(true);
        throw error;
      }
    } catch (err) {
      this.#waiting = new Map();
      logger.debug({ err }, "outcomes of dependencies could not be told");
    }
  }
}

const isFailed = (state: Settled): boolean => state === "failed" || state === "retry_waiting";
