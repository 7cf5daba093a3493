/** Dependencies as the worker and the relay use them: each function is one round trip. */

import type { DependencyDefinition, FailureClass } from "@waybill/core";
import type { BreakerState } from "./dependency-record.ts";
import type { SqlConnection } from "./executor.ts";
import { runner, type StoreOptions } from "./run-statement.ts";
import { statementsFor } from "./statements.ts";

/** Finished attempts of one dependency that ended the same way. */
export interface OutcomeReport {
  readonly dependency: string;
  /** Null: they succeeded. */
  readonly failureClass: FailureClass | null;
  /** How long ago they began, in milliseconds. */
  readonly ageMs: number;
  readonly attempts: number;
}

/** A breaker after a step. */
export interface BreakerView {
  readonly name: string;
  readonly state: BreakerState;
  readonly reason: string | null;
  /** Milliseconds until the next probe; null where none is to come. */
  readonly probeMs: number | null;
}

/** See the head of the file. */
export interface DependencyStore {
  /** Writes what dependencies jobs have; the names of those that were new or had other settings. */
  declare(definitions: readonly DependencyDefinition[]): Promise<readonly string[]>;
  /**
   * Counts finished attempts. To be sent as soon as the ages are known: what a statement waits for a
   * connection makes attempts look younger.
   */
  record(reports: readonly OutcomeReport[]): Promise<void>;
  /** Moves the breakers on; all of them as they are then. None without the term. */
  step(epoch: string): Promise<readonly BreakerView[]>;
}

/**
 * The statements about dependencies on a connection of the worker or the relay. Errors of the driver
 * pass through.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createDependencyStore(
  connection: SqlConnection,
  options: StoreOptions = {},
): DependencyStore {
  const sql = statementsFor(options.schema);
  const run = runner(connection, options);
  return {
    async declare(definitions) {
      const values = definitions.map(({ name, settings }) => ({ name, settings }));
      const { rows } = await run<{ name: string }>(sql.declare_dependencies, [
        JSON.stringify(values),
      ]);
      return rows.map(({ name }) => name);
    },
    async record(reports) {
      const values = reports.map(({ dependency, failureClass, ageMs, attempts }) => ({
        dependency,
        failure_class: failureClass,
        age_ms: ageMs,
        attempts,
      }));
      await run(sql.record_outcomes, [JSON.stringify(values)]);
    },
    step: async (epoch) => (await run<BreakerView>(sql.step_breakers, [epoch])).rows,
  };
}
