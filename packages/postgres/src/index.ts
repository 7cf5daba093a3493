export {
  drizzleDatabase,
  type DrizzleLike,
  type DrizzleSql,
  type DrizzleTransactionLike,
} from "./adapters/drizzle-database.ts";
export { knexDatabase, type KnexLike, type KnexTransactionLike } from "./adapters/knex-database.ts";
export {
  kyselyDatabase,
  type KyselyLike,
  type KyselyTransactionLike,
} from "./adapters/kysely-database.ts";
export {
  mikroOrmDatabase,
  type MikroOrmLike,
  type MikroOrmManagerLike,
} from "./adapters/mikro-orm-database.ts";
export {
  pgDatabase,
  pgExecutor,
  type PgPoolClientLike,
  type PgPoolLike,
  type PgTransactionLike,
} from "./adapters/pg-database.ts";
export { type PgClientLike, pgListener } from "./adapters/pg-listener.ts";
export {
  postgresJsDatabase,
  type PostgresJsLike,
  type PostgresJsTransactionLike,
} from "./adapters/postgres-js-database.ts";
export { type PostgresJsListenLike, postgresJsListener } from "./adapters/postgres-js-listener.ts";
export {
  prismaDatabase,
  type PrismaClientLike,
  type PrismaDatabaseOptions,
  type PrismaTransactionLike,
} from "./adapters/prisma-database.ts";
export {
  sequelizeDatabase,
  type SequelizeLike,
  type SequelizeTransactionLike,
} from "./adapters/sequelize-database.ts";
export {
  typeormDatabase,
  type TypeOrmDataSourceLike,
  type TypeOrmManagerLike,
} from "./adapters/typeorm-database.ts";
export {
  type BreakerActOptions,
  createDependencies,
  type Dependencies,
  type DependenciesOptions,
  type DependencyHistoryOptions,
} from "./dependencies.ts";
export type { BreakerState, DependencyEvent, DependencyRecord } from "./dependency-record.ts";
export {
  type BreakerView,
  createDependencyStore,
  type DependencyStore,
  type OutcomeReport,
} from "./dependency-store.ts";
export {
  type Audit,
  type AuditOptions,
  createAudit,
  type EndedJobs,
  type JobsInFlight,
  type QueueBooks,
  type WaitingJobs,
} from "./audit.ts";
export {
  type AuditBooks,
  type AuditPlace,
  type AuditStore,
  createAuditStore,
  type IdleSlot,
  type UnclaimedJob,
  type UnclaimedPage,
} from "./audit-store.ts";
export { operatingError, sqlStateOf, unavailableError } from "./database-errors.ts";
export type { EnqueueOptions, IdempotencyMode } from "./enqueue-options.ts";
export type { Database, Row, SqlConnection, SqlExecutor } from "./executor.ts";
export {
  createFlowStore,
  type DeclaredSettings,
  type FlowNews,
  type FlowReading,
  type FlowStore,
  type QueueFlow,
  type FlowGate,
  type WorkerShare,
  type ShareUse,
} from "./flow-store.ts";
export type { JobListener, Listening, ListenRequest } from "./job-listener.ts";
export type {
  DeadLetterRecord,
  JobAudit,
  JobCheckpoint,
  JobFailure,
  JobRecord,
  JobSummary,
} from "./job-record.ts";
export type { JobSnapshot } from "./job-snapshot.ts";
export type { JobProgress, JobStatus } from "./job-status.ts";
export type { JobWatching } from "./job-watching.ts";
export { createJobs, type Jobs } from "./jobs.ts";
export type {
  ActOptions,
  DeadLetterFilter,
  DeadLetterPage,
  JobCounts,
  JobFilter,
  JobPage,
  JobResult,
  JobSelector,
  JobsOptions,
  ResultOptions,
  WatchOptions,
} from "./jobs-options.ts";
export {
  migrate,
  type MigrateOptions,
  type MigrateResult,
  requireSchemaVersion,
  schemaVersion,
} from "./migrate.ts";
export { grantRoles, type GrantRolesOptions, roleNames } from "./roles.ts";
export { type Migration, migrations, type QueryName } from "./sql.generated.ts";
export {
  defaultSchema,
  inSchema,
  jobChannel,
  type Statement,
  type Statements,
  statementsFor,
  wakeChannel,
} from "./statements.ts";
export {
  type AutocommitOptions,
  createOutbox,
  type EnqueueItem,
  type EnqueueReceipt,
  type EnqueueRefusal,
  type Outbox,
  type OutboxOptions,
} from "./outbox.ts";
export {
  type BacklogRow,
  createGovernorStore,
  type DispatchRef,
  type FreedRow,
  type GateRecord,
  type Governance,
  type GovernorStore,
  type QueueCapacity,
  type ReadJob,
  type Round,
  type RoundResult,
  type SlotRow,
} from "./governor-store.ts";
export {
  type CancelRequest,
  type ClaimedRow,
  type ClaimRequest,
  createInboxStore,
  createJobFence,
  type FailureOutcome,
  type FailureRecord,
  type IdleDelivery,
  type InboxStore,
  type JobFence,
  type JobOutcome,
  type JobRef,
  type CompletedJob,
  type OwnedJob,
  type ParkRequest,
  type ProgressReport,
  type WorkerRequests,
} from "./inbox-store.ts";
export type {
  QueueAudit,
  QueueGateReport,
  QueueOverrides,
  QueueReport,
  QueueStop,
  QueueSummary,
  QueueWorker,
} from "./queue-report.ts";
export { createQueues, type Queues } from "./queues.ts";
export type {
  QueueActOptions,
  QueueChange,
  QueuesOptions,
  QueueTarget,
  TierAssignment,
} from "./queues-options.ts";
export { rateWords, settingWords } from "./queue-words.ts";
export { createRelayStore } from "./relay-store.ts";
export type { OperatorActOptions, OperatorOptions } from "./operator.ts";
export type { StoreOptions } from "./run-statement.ts";
export type {
  CursorRecord,
  OutboxPage,
  OutboxRow,
  PageLimits,
  ParkedDispatch,
  Partition,
  PartitionedTable,
  PartitionList,
  Prunable,
  RelayStore,
  StoredCursor,
} from "./relay-records.ts";
export type { StopRequest, WorkerRecord } from "./worker-record.ts";
export type { BlockedKey, BlockedReason } from "./blocked-key.ts";
export type { ErasableFilter, ErasableJob, ErasablePage, JobErasure } from "./job-erasure.ts";
export type { JobExplanation } from "./explain-job.ts";
export type { BlockedFilter, JobExplaining } from "./job-explaining.ts";
export type { GateName, JobGate } from "./job-gates.ts";
export type { JobDelay, JobEdit, UncheckedJobEdit, WaitingActs } from "./waiting-acts.ts";
export {
  createWorkers,
  type StopOptions,
  type WorkerFilter,
  type Workers,
  type WorkerSelector,
  type WorkersOptions,
} from "./workers.ts";
