/**
 * Which handler runs what. Maps throughout: a type comes from a message, and on a plain object
 * "constructor" would be found.
 */

import {
  ConfigError,
  type ConfigIssue,
  DuplicateJobError,
  type ResolvedRetryPolicy,
  type StandardSchema,
  type Upcaster,
} from "@waybill/core";
import type { BatchHandler } from "./batch/batched-job.ts";
import type { ResolvedBatchOptions } from "./batch/options.ts";
import type { Context, Job } from "./job.ts";

/** A context whose name and payload are known to the handler alone. */
export type AnyContext = Context<string, unknown>;

/** What a plain handler gets; its checkpoint is known to the handler alone. */
export interface PlainContext<Tx> extends AnyContext, Pick<Job<never, Tx>, "transaction"> {
  readonly checkpoint: unknown;
  saveCheckpoint(tx: Tx, checkpoint: unknown): Promise<void>;
}

/** A handler that runs in threads of its own. */
export interface ThreadedHandler {
  /** Rejects with a ConfigError where threads cannot be had. */
  check(): Promise<void>;
  /** Begins an attempt; `kill` ends its thread, whatever it does. */
  start(job: AnyContext & { readonly checkpoint: unknown }): {
    readonly result: Promise<unknown>;
    readonly kill: (reason: Error) => void;
  };
  close(): Promise<void>;
}

/** A handler that takes several jobs at once. */
export interface BatchRun<Tx> extends ResolvedBatchOptions {
  readonly kind: "batch";
  readonly handler: BatchHandler<Tx>;
}

/** A handler with what its definition says about running it. */
export interface Registration<Tx> {
  readonly name: string;
  /** Undefined: events, which have no versions. */
  readonly version: number | undefined;
  readonly payload: StandardSchema;
  readonly checkpoint: StandardSchema | undefined;
  readonly result: StandardSchema | undefined;
  /** Steps from earlier versions up to `version`, by the version that they begin with. */
  readonly upcasters: ReadonlyMap<number, Upcaster>;
  /** Names of the dependencies without which it does not run. */
  readonly dependsOn: readonly string[];
  readonly retry: ResolvedRetryPolicy;
  readonly timeoutMs: number;
  /** 0: `timeoutMs` and the worker's `abandonMs`. */
  readonly hardTimeoutMs: number;
  readonly run:
    | {
        readonly kind: "plain";
        readonly handler: (job: PlainContext<Tx>) => Promise<unknown>;
      }
    | { readonly kind: "isolated"; readonly handler: ThreadedHandler }
    | BatchRun<Tx>
    | {
        readonly kind: "transactional";
        readonly handler: (job: AnyContext, tx: Tx) => Promise<unknown>;
      };
}

/** A subscription's name and the events it wants. */
export interface SubscriptionEvents {
  readonly subscription: string;
  readonly events: readonly string[];
}

function nearest<Tx>(
  versions: ReadonlyMap<number, Registration<Tx>> | undefined,
  version: number,
): Registration<Tx> | undefined {
  let found: readonly [number, Registration<Tx>] | undefined;
  for (const entry of versions ?? []) {
    // Steps have no gaps: one from this version leads up to the handler's.
    const isCloser = found === undefined || entry[0] < found[0];
    if (entry[1].upcasters.has(version) && isCloser) found = entry;
  }
  return found?.[1];
}

/** See the head of the file. */
export class Registry<Tx> {
  /** By job name, then by version. */
  readonly #jobs = new Map<string, Map<number, Registration<Tx>>>();
  /** Queue of each job that has a handler. */
  readonly #queues = new Map<string, Set<string>>();
  /** By subscription, then by event name. */
  readonly #events = new Map<string, Map<string, Registration<Tx>>>();

  addJob(queue: string, version: number, registration: Registration<Tx>): void {
    const versions = this.#jobs.get(registration.name) ?? new Map<number, Registration<Tx>>();
    if (versions.has(version)) throw new DuplicateJobError(registration.name);
    versions.set(version, registration);
    this.#jobs.set(registration.name, versions);
    const names = this.#queues.get(queue) ?? new Set<string>();
    names.add(registration.name);
    this.#queues.set(queue, names);
  }

  addEvent(subscription: string, registration: Registration<Tx>): void {
    const events = this.#events.get(subscription) ?? new Map<string, Registration<Tx>>();
    if (events.has(registration.name)) throw new DuplicateJobError(registration.name);
    events.set(registration.name, registration);
    this.#events.set(subscription, events);
  }

  /**
   * The handler for a message; a job is found on any queue, an event on its subscription only. A
   * handler of the very version comes first, then that of the next higher version whose upcasters
   * begin with it or before; never one of a lower version, which knows nothing of the payload.
   */
  find(queue: string, type: string, version: number): Registration<Tx> | undefined {
    const versions = this.#jobs.get(type);
    return (
      this.#events.get(queue)?.get(type) ?? versions?.get(version) ?? nearest(versions, version)
    );
  }

  /** True where the type is known, in whatever version. */
  knowsType(type: string): boolean {
    return this.#jobs.has(type);
  }

  get subscriptions(): readonly SubscriptionEvents[] {
    return [...this.#events].map(([subscription, events]) => ({
      subscription,
      events: [...events.keys()],
    }));
  }

  /** The handlers that run in threads of their own. */
  get threads(): readonly ThreadedHandler[] {
    return [...this.#jobs.values()]
      .flatMap((versions) => [...versions.values()])
      .flatMap(({ run }) => (run.kind === "isolated" ? [run.handler] : []));
  }

  /** Dependencies of each job type of a queue, whatever its version; most have none. */
  dependenciesOf(queue: string): ReadonlyMap<string, readonly string[]> {
    const names = [...(this.#queues.get(queue) ?? [])];
    return new Map(
      names.map((name) => {
        const versions = [...(this.#jobs.get(name)?.values() ?? [])];
        return [name, [...new Set(versions.flatMap(({ dependsOn }) => dependsOn))]];
      }),
    );
  }

  /** The handlers of jobs that depend on something. */
  get dependents(): readonly Pick<Registration<Tx>, "name" | "dependsOn">[] {
    return [...this.#jobs.values()]
      .flatMap((versions) => [...versions.values()])
      .filter(({ dependsOn }) => dependsOn.length > 0);
  }

  /** The only job of a queue, which its untyped messages are; undefined where there are several. */
  singleJobOf(queue: string): string | undefined {
    const names = this.#queues.get(queue) ?? this.#events.get(queue);
    return names?.size === 1 ? [...names.keys()][0] : undefined;
  }

  /**
   * Compares handlers with the queues and with the data layer's pool.
   *
   * @param concurrencyOf jobs of a queue or subscription at a time; undefined: not consumed
   * @param poolSize connections of the data layer, where it can tell
   * @throws ConfigError with every problem
   */
  check(
    concurrencyOf: (queue: string) => number | undefined,
    consumed: readonly string[],
    poolSize: number | undefined,
  ): void {
    const issues: ConfigIssue[] = [];
    for (const [queue, names] of this.#queues) {
      if (concurrencyOf(queue) === undefined) {
        issues.push({
          path: `queues.${queue}`,
          message: `missing, but there are handlers for its jobs: ${[...names].join(", ")}`,
        });
      }
      if (this.#events.has(queue)) {
        issues.push({
          path: `queues.${queue}`,
          message: "is the name of a subscription as well; rename one of them",
        });
      }
    }
    if (consumed.length === 0) {
      issues.push({ path: "queues", message: "name at least one queue, or subscribe to an event" });
    }
    // Each transactional handler holds a connection while it runs: with fewer of them than slots,
    // handlers would wait for each other and look slow.
    const wanted = this.#transactionalQueues().reduce(
      (sum, queue) => sum + (concurrencyOf(queue) ?? 0),
      0,
    );
    if (poolSize !== undefined && wanted > poolSize) {
      issues.push({
        path: "queues",
        message:
          `concurrency of the queues with transactional handlers is ${wanted} in all, but the data ` +
          `layer's pool has ${poolSize} connections; raise the pool's maximum or lower the concurrency`,
      });
    }
    if (issues.length > 0) throw new ConfigError("createWorker", issues);
  }

  #transactionalQueues(): readonly string[] {
    const isTransactional = (name: string): boolean =>
      [...(this.#jobs.get(name)?.values() ?? [])].some(({ run }) => run.kind === "transactional");
    const ofJobs = [...this.#queues].filter(([, names]) => [...names].some(isTransactional));
    return [...ofJobs.map(([queue]) => queue), ...this.#events.keys()];
  }
}
