export { operatingError, sqlStateOf, unavailableError } from "./database-errors.ts";
export type { Database, Row, SqlConnection, SqlExecutor } from "./executor.ts";
export {
  migrate,
  type MigrateOptions,
  type MigrateResult,
  requireSchemaVersion,
  schemaVersion,
} from "./migrate.ts";
export { type Migration, migrations, type QueryName } from "./sql.generated.ts";
export {
  defaultSchema,
  inSchema,
  type Statement,
  type Statements,
  statementsFor,
  wakeChannel,
} from "./statements.ts";
export {
  pgDatabase,
  pgExecutor,
  type PgPoolClientLike,
  type PgPoolLike,
  type PgTransactionLike,
} from "./pg-database.ts";
export {
  type ClaimedRow,
  type ClaimRequest,
  createInboxStore,
  createJobFence,
  type FailureOutcome,
  type FailureRecord,
  type InboxStore,
  type InboxStoreOptions,
  type JobFence,
  type JobOutcome,
  type JobRef,
  type OwnedJob,
  type ParkRequest,
  type WorkerRegistration,
} from "./inbox-store.ts";
