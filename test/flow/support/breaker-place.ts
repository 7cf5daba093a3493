import {
  defineDependency,
  type DependencyDefinition,
  type DependencySettings,
  type FailureClass,
} from "@waybill/core";
import {
  type BreakerView,
  createDependencies,
  createDependencyStore,
  type Dependencies,
  type DependencyStore,
} from "@waybill/postgres";
import type { PoolClient } from "pg";
import { type Application, startApplication } from "../../postgres/application.ts";

/** A database whose breakers are moved on by hand. */
export interface BreakerPlace extends AsyncDisposable {
  readonly app: Application;
  readonly store: DependencyStore;
  readonly dependencies: Dependencies<PoolClient>;
  /** Declares a dependency. */
  declare(name: string, settings?: DependencySettings): Promise<DependencyDefinition>;
  /** Tells of attempts of a dependency that began so long ago; without a class they succeeded. */
  record(name: string, attempts: number, how?: RecordOptions): Promise<void>;
  /** A step of the relay that leads; the breaker of the dependency after it. */
  step(name: string): Promise<BreakerView | undefined>;
  /** Everything about breakers looks as if it had happened so much earlier. */
  pass(ms: number): Promise<void>;
  /** Number of the present settings: relays and workers read them again when it changes. */
  revision(): Promise<number>;
  events(): Promise<readonly (readonly [string, string, string | null])[]>;
}

export interface RecordOptions {
  readonly failureClass?: FailureClass | undefined;
  /** @default 0 */
  readonly ageMs?: number | undefined;
}

/** Term of the relay that leads. */
export const epoch = "7";

export async function startBreakerPlace(): Promise<BreakerPlace> {
  const app = await startApplication();
  const { pool, db } = app;
  await pool.query("update waybill.relay set epoch = $1, lease_until = now() + interval '1 hour'", [
    epoch,
  ]);
  const store = createDependencyStore(pool);
  return {
    app,
    store,
    dependencies: createDependencies({ database: app.database, actor: "tester" }),
    async declare(name, settings = {}) {
      const definition = defineDependency({ name, ...settings });
      await store.declare([definition]);
      return definition;
    },
    record: (name, attempts, { failureClass, ageMs = 0 } = {}) =>
      store.record([{ dependency: name, failureClass: failureClass ?? null, ageMs, attempts }]),
    step: async (name) => (await store.step(epoch)).find((breaker) => breaker.name === name),
    async pass(ms) {
      await pool.query(
        `with dependency as (
           update waybill.dependency
           set changed_at = changed_at - $1 * interval '1 millisecond',
               probe_at = probe_at - $1 * interval '1 millisecond'
         )
         update waybill.dependency_outcome
         set since = since - $1 * interval '1 millisecond', second = second - $1 * interval '1 millisecond'`,
        [ms],
      );
    },
    async revision() {
      const [row] = await db.rows<{ revision: string }>("select revision from waybill.flow");
      return Number(row?.revision);
    },
    async events() {
      const rows = await db.rows<{ state: string; actor: string; reason: string | null }>(
        "select state, actor, reason from waybill.dependency_event order by event_id",
      );
      return rows.map(({ state, actor, reason }) => [state, actor, reason] as const);
    },
    [Symbol.asyncDispose]: () => app[Symbol.asyncDispose](),
  };
}
