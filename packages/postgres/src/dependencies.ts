/**
 * What jobs depend on, with their circuit breakers: read, opened and closed through the database alone.
 * Workers declare dependencies and count attempts, the leading relay moves the breakers on; an operator's
 * act is a change of the same row, so that the whole fleet heeds it.
 */

import { ConfigError } from "@waybill/core";
import {
  actOptionRules,
  anything,
  checkOptions,
  integerRule,
  optional,
  type OptionRule,
  textRule,
} from "./check-options.ts";
import {
  type DependencyEvent,
  dependencyEventOf,
  type DependencyRecord,
  dependencyRecordOf,
} from "./dependency-record.ts";
import type { JsonRow } from "./json-row.ts";
import { type OperatorActOptions, operatorOf, type OperatorOptions } from "./operator.ts";
import type { RunStatement } from "./transactions.ts";

/** Options of `createDependencies`. */
export type DependenciesOptions<Tx> = OperatorOptions<Tx>;

/** Which changes of a breaker to read. */
export interface DependencyHistoryOptions<Tx> {
  /**
   * Changes to read; 1 to 1000.
   * @default 50
   */
  readonly limit?: number | undefined;
  /** Only changes before the one with this id: the last of the page before. */
  readonly before?: string | undefined;
  /** Runs in this transaction of the application; in one of its own where it is left out. */
  readonly tx?: Tx | undefined;
}

/** Options of opening and closing a breaker. The reason is shown with it and stands in its history. */
export type BreakerActOptions<Tx> = OperatorActOptions<Tx>;

/** What {@link createDependencies} makes. */
export interface Dependencies<Tx> {
  /** All dependencies that a worker has ever declared, by name. */
  list(options?: { readonly tx?: Tx | undefined }): Promise<readonly DependencyRecord[]>;
  /**
   * Changes of a breaker, the latest first, as long as the relay's `historyRetentionMs` keeps them.
   *
   * @throws ConfigError for a name that no worker has declared
   */
  history(
    name: string,
    options?: DependencyHistoryOptions<Tx>,
  ): Promise<readonly DependencyEvent[]>;
  /**
   * Opens a breaker: from its commit on no job that needs the dependency goes, until somebody closes it.
   * Jobs that run go on.
   *
   * @throws ConfigError for a name that no worker has declared
   */
  open(name: string, act?: BreakerActOptions<Tx>): Promise<DependencyRecord>;
  /**
   * Closes a breaker, whoever opened it, and forgets what it has counted.
   *
   * @throws ConfigError for a name that no worker has declared
   */
  close(name: string, act?: BreakerActOptions<Tx>): Promise<DependencyRecord>;
}

const limitDefault = 50;
const eventIdMax = "9223372036854775807";

const eventIdRule: OptionRule = (value) =>
  (typeof value === "string" && /^\d{1,18}$/.test(value)) || "must be the id of a change";

/**
 * Makes the reader and operator of dependencies.
 *
 * @throws ConfigError for options that are unknown or out of bounds, NameError for the schema
 *
 * @example
 * const dependencies = createDependencies({ database: pgDatabase(pool) });
 * await dependencies.open("payments-api", { reason: "their maintenance until 18:00" });
 */
export function createDependencies<Tx>(options: DependenciesOptions<Tx>): Dependencies<Tx> {
  const { statements, within, actor: defaultActor } = operatorOf("createDependencies", options);

  const read = async (run: RunStatement, name = ""): Promise<readonly DependencyRecord[]> => {
    const rows = await run(statements.list_dependencies, [name]);
    return rows.map((row) => dependencyRecordOf(JSON.parse(String(row["dependency"])) as JsonRow));
  };

  const find = async (
    run: RunStatement,
    subject: string,
    name: string,
  ): Promise<DependencyRecord> => {
    // An empty name would ask for all of them.
    const [found] = name === "" ? [] : await read(run, name);
    if (found !== undefined) return found;
    const known = (await read(run)).map((each) => each.name).join(", ");
    throw new ConfigError(subject, [
      {
        path: "name",
        message:
          `${JSON.stringify(name.slice(0, 80))} is no known dependency; ` +
          (known === ""
            ? "none is known before a worker has declared it at its start"
            : `known are ${known}`),
      },
    ]);
  };

  const act = async (
    verb: "open" | "close",
    name: string,
    given: BreakerActOptions<Tx>,
  ): Promise<DependencyRecord> => {
    const subject = `dependencies.${verb}`;
    checkOptions(subject, { name, ...given }, { name: textRule(128), ...actOptionRules });
    const { reason, actor, tx } = given;
    const statement = verb === "open" ? statements.open_dependency : statements.close_dependency;
    return within(tx, async (run) => {
      await run(statement, [name, actor ?? defaultActor, reason ?? ""]);
      return find(run, subject, name);
    });
  };

  return {
    async list(more = {}) {
      checkOptions("dependencies.list", more, { tx: anything });
      return within(more.tx, (run) => read(run));
    },
    async history(name, { tx, ...page } = {}) {
      const subject = "dependencies.history";
      checkOptions(
        subject,
        { name, ...page },
        {
          name: textRule(128),
          limit: optional(integerRule(1, 1_000)),
          before: optional(eventIdRule),
        },
      );
      return within(tx, async (run) => {
        await find(run, subject, name);
        const { before = eventIdMax, limit = limitDefault } = page;
        const rows = await run(statements.list_dependency_events, [name, before, String(limit)]);
        return rows.map((row) => dependencyEventOf(JSON.parse(String(row["event"])) as JsonRow));
      });
    },
    open: (name, more = {}) => act("open", name, more),
    close: (name, more = {}) => act("close", name, more),
  };
}
