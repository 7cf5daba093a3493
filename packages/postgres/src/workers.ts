/**
 * The workers, through the database alone: they say in the table waybill.worker how they are, and
 * look there several times a second for what is asked of them. Nothing here needs a way to their
 * hosts.
 */

import { ConfigError } from "@waybill/core";
import {
  actOptionRules,
  anything,
  booleanRule,
  checkOptions,
  optional,
  type OptionRule,
  textRule,
} from "./check-options.ts";
import type { JsonRow } from "./json-row.ts";
import { type OperatorActOptions, operatorOf, type OperatorOptions } from "./operator.ts";
import type { RunStatement } from "./transactions.ts";
import { type StopRequest, type WorkerRecord, workerRecordOf } from "./worker-record.ts";

/** Options of `createWorkers`. */
export type WorkersOptions<Tx> = OperatorOptions<Tx>;

/** Which workers to list. */
export interface WorkerFilter<Tx> {
  /**
   * Dead workers as well, as long as the relay's pruner has not removed them.
   * @default false
   */
  readonly dead?: boolean | undefined;
  /**
   * Count the running jobs that dead workers still own; reads the whole inbox where there are any.
   * @default false
   */
  readonly ownedJobs?: boolean | undefined;
  /** Runs in this transaction of the application; in one of its own where it is left out. */
  readonly tx?: Tx | undefined;
}

/** Which workers an act is for: those named that also consume the queue, or all. */
export interface WorkerSelector {
  /** Names, which several workers may share; ids; or beginnings of ids, of 8 characters at least. */
  readonly workers?: readonly string[] | undefined;
  /** Only those that consume this queue or subscription. */
  readonly queue?: string | undefined;
  /** Every worker that is alive; instead of `workers` and `queue`. */
  readonly all?: true | undefined;
}

/** Options of an act on workers. */
export type StopOptions<Tx> = OperatorActOptions<Tx>;

/** What {@link createWorkers} makes. */
export interface Workers<Tx> {
  /** The workers that are alive, the longest running first. */
  list(filter?: WorkerFilter<Tx>): Promise<readonly WorkerRecord[]>;
  /** The living workers that a selector chooses; nothing is asked of them. */
  select(
    selector: WorkerSelector,
    options?: { readonly tx?: Tx | undefined },
  ): Promise<readonly WorkerRecord[]>;
  /**
   * Asks workers to take no more jobs, to finish what they run, and to stay. They begin within a
   * second after this has committed.
   *
   * @returns the workers that were asked, as they are then; those that died meanwhile are left out
   * @throws ConfigError for a name or id of no living worker; then nobody was asked
   */
  drain(selector: WorkerSelector, act?: StopOptions<Tx>): Promise<readonly WorkerRecord[]>;
  /**
   * Asks workers to drain and to end, so that their supervisor starts new ones. Stands over a drain,
   * and no later drain takes it back.
   *
   * @returns the workers that were asked, as they are then; those that died meanwhile are left out
   * @throws ConfigError for a name or id of no living worker; then nobody was asked
   */
  restart(selector: WorkerSelector, act?: StopOptions<Tx>): Promise<readonly WorkerRecord[]>;
}

const idPrefix = /^[0-9a-f][0-9a-f-]{7,35}$/;

const namesRule: OptionRule = (value) =>
  (Array.isArray(value) &&
    value.length > 0 &&
    value.every((each) => typeof each === "string" && each !== "")) ||
  "must be an array of names or ids, not empty";

function checkSelector(subject: string, selector: WorkerSelector): void {
  checkOptions(subject, selector, {
    workers: optional(namesRule),
    queue: optional(textRule(63)),
    all: optional((value) => value === true || "must be true, or left out"),
  });
  const { workers, queue, all } = selector;
  const chosen = workers !== undefined || queue !== undefined;
  if (chosen !== (all === true)) return;
  throw new ConfigError(subject, [
    {
      path: "all",
      message: chosen
        ? "does not go together with workers and queue"
        : "is needed where neither workers nor a queue are named",
    },
  ]);
}

const isNamed = (worker: WorkerRecord, name: string): boolean =>
  worker.name === name ||
  (idPrefix.test(name.toLowerCase()) && worker.id.startsWith(name.toLowerCase()));

/**
 * The workers of the selector.
 *
 * @throws ConfigError that lists the known workers or queues where it names others
 */
function chosenBy(
  subject: string,
  selector: WorkerSelector,
  alive: readonly WorkerRecord[],
): readonly WorkerRecord[] {
  const { workers, queue } = selector;
  const names = [...new Set(alive.map(({ name }) => name))].join(", ");
  const known = names === "" ? "no worker is alive" : `alive are ${names}`;
  const issues = (workers ?? [])
    .filter((name) => !alive.some((worker) => isNamed(worker, name)))
    .map((name) => ({
      path: "workers",
      message: `${JSON.stringify(name.slice(0, 80))} is no living worker's name or id; ${known}`,
    }));
  if (queue !== undefined && !alive.some((worker) => worker.queues.includes(queue))) {
    const consumed = [...new Set(alive.flatMap((worker) => worker.queues))].sort();
    issues.push({
      path: "queue",
      message: `no living worker consumes ${JSON.stringify(queue)}; consumed are ${consumed.join(", ") || "none"}`,
    });
  }
  const chosen = alive.filter(
    (worker) =>
      (queue === undefined || worker.queues.includes(queue)) &&
      (workers === undefined || workers.some((name) => isNamed(worker, name))),
  );
  if (issues.length === 0 && chosen.length === 0 && queue !== undefined) {
    issues.push({ path: "queue", message: `none of the workers named consumes "${queue}"` });
  }
  if (issues.length > 0) throw new ConfigError(subject, issues);
  return chosen;
}

/**
 * Makes the reader and operator of workers.
 *
 * @throws ConfigError for options that are unknown or out of bounds, NameError for the schema
 */
export function createWorkers<Tx>(options: WorkersOptions<Tx>): Workers<Tx> {
  const { statements, within, actor: defaultActor } = operatorOf("createWorkers", options);

  const read = async (
    run: RunStatement,
    { dead = false, ownedJobs = false }: WorkerFilter<Tx> = {},
  ): Promise<readonly WorkerRecord[]> => {
    const rows = await run(statements.list_workers, [String(dead), String(ownedJobs)]);
    return rows.map((row) => workerRecordOf(JSON.parse(String(row["worker"])) as JsonRow));
  };

  const ask = async (
    request: StopRequest,
    selector: WorkerSelector,
    act: StopOptions<Tx>,
  ): Promise<readonly WorkerRecord[]> => {
    const subject = `workers.${request}`;
    checkSelector(subject, selector);
    checkOptions(subject, act, actOptionRules);
    return within(act.tx, async (run) => {
      const chosen = chosenBy(subject, selector, await read(run));
      const rows = await run(statements.request_stop, [
        request,
        JSON.stringify(chosen.map(({ id }) => id)),
        act.actor ?? defaultActor,
        act.reason ?? "",
      ]);
      const asked = new Set(rows.map((row) => String(row["id"])));
      return (await read(run)).filter(({ id }) => asked.has(id));
    });
  };

  return {
    async list(filter = {}) {
      checkOptions("workers.list", filter, {
        dead: optional(booleanRule),
        ownedJobs: optional(booleanRule),
        tx: anything,
      });
      return within(filter.tx, (run) => read(run, filter));
    },
    async select(selector, more = {}) {
      checkSelector("workers.select", selector);
      checkOptions("workers.select", more, { tx: anything });
      return within(more.tx, async (run) => chosenBy("workers.select", selector, await read(run)));
    },
    drain: (selector, act = {}) => ask("drain", selector, act),
    restart: (selector, act = {}) => ask("restart", selector, act),
  };
}
