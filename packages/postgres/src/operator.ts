/** What those who read and operate Waybill have in common: jobs, workers, queues, dependencies, books. */

import {
  anything,
  checkOptions,
  databaseRule,
  optional,
  type OptionRule,
  textRule,
} from "./check-options.ts";
import type { Database } from "./executor.ts";
import { defaultSchema, type Statements, statementsFor } from "./statements.ts";
import { type Transactions, transactionsOf } from "./transactions.ts";

/** Options of `createJobs`, `createWorkers`, `createQueues`, `createDependencies` and `createAudit`. */
export interface OperatorOptions<Tx> {
  readonly database: Database<Tx>;
  /**
   * Schema that holds Waybill's tables.
   * @default "waybill"
   */
  readonly schema?: string | undefined;
  /**
   * Who acts, as written to the audit log; at most 255 characters.
   * @default "api"
   */
  readonly actor?: string | undefined;
}

/** Options of an act. */
export interface OperatorActOptions<Tx> {
  /** Written to the audit log; at most 1,000 characters. */
  readonly reason?: string | undefined;
  /** Who acts; the actor of the factory where it is left out. */
  readonly actor?: string | undefined;
  /** Runs in this transaction of the application; in one of its own where it is left out. */
  readonly tx?: Tx | undefined;
}

/** What acts are made of. */
export interface Operator<Tx> {
  readonly statements: Statements;
  readonly within: Transactions<Tx>;
  readonly schema: string;
  /** Who acts where an act does not say. */
  readonly actor: string;
}

/**
 * Checks the options of a factory and makes what its acts need.
 *
 * @param rules of the options that it has besides
 * @throws ConfigError for options that are unknown or out of bounds, NameError for the schema
 */
export function operatorOf<Tx>(
  factory: string,
  options: OperatorOptions<Tx>,
  rules: Readonly<Record<string, OptionRule>> = {},
): Operator<Tx> {
  checkOptions(factory, options, {
    database: databaseRule,
    schema: anything,
    actor: optional(textRule(255)),
    ...rules,
  });
  const { database, schema = defaultSchema, actor = "api" } = options;
  return {
    statements: statementsFor(schema),
    within: transactionsOf(database, schema),
    schema,
    actor,
  };
}
