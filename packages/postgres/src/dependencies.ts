/**
 * What jobs depend on, with their circuit breakers: read, opened and closed through the database alone.
 * Workers declare dependencies and count attempts, the leading relay moves the breakers on; an operator's
 * act is a change of the same row, so that the whole fleet heeds it.
 */

import { ConfigError } from "@waybill/core";
import {
  checkOptions,
  databaseRule,
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
import type { Database } from "./executor.ts";
import type { JsonRow } from "./json-row.ts";
import { defaultSchema, statementsFor } from "./statements.ts";
import { type RunStatement, transactionsOf } from "./transactions.ts";

/** Options of `createDependencies`. */
export interface DependenciesOptions<Tx> {
  readonly database: Database<Tx>;
  /**
   * Schema that holds Waybill's tables.
   * @default "waybill"
   */
  readonly schema?: string | undefined;
  /**
   * Who opens and closes breakers, as written to the audit log; at most 255 characters.
   * @default "api"
   */
  readonly actor?: string | undefined;
}

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

/** Options of opening and closing a breaker. */
export interface BreakerActOptions<Tx> {
  /** Shown with the breaker, and written to its history and the audit log; at most 1,000 characters. */
  readonly reason?: string | undefined;
  /** Who acts; the actor of `createDependencies` where it is left out. */
  readonly actor?: string | undefined;
  readonly tx?: Tx | undefined;
}

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

const anything: OptionRule = () => true;
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
  checkOptions("createDependencies", options, {
    database: databaseRule,
    schema: anything,
    actor: optional(textRule(255)),
  });
  const { database, schema = defaultSchema, actor: defaultActor = "api" } = options;
  const statements = statementsFor(schema);
  const within = transactionsOf(database, schema);

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
    { reason, actor, tx, ...unknown }: BreakerActOptions<Tx>,
  ): Promise<DependencyRecord> => {
    const subject = `dependencies.${verb}`;
    checkOptions(
      subject,
      { name, reason, actor, ...unknown },
      { name: textRule(128), reason: optional(textRule(1_000)), actor: optional(textRule(255)) },
    );
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
