export {
  backoffDelayMs,
  defaultRetryPolicy,
  type ResolvedRetryPolicy,
  type RetryPolicy,
} from "./backoff.ts";
export {
  type DecodeContext,
  decodeEnvelope,
  type DecoderName,
  decoderNames,
  isUnreadable,
  payloadOf,
  untypedType,
} from "./decode.ts";
export {
  type Dispatch,
  encodeEnvelope,
  type Envelope,
  type IncomingMessage,
  type OutgoingEnvelope,
  type TopologyNames,
  topologyNames,
  type UnreadableEnvelope,
  waybillHeaders,
} from "./envelope.ts";
export {
  BrokerError,
  type BrokerErrorSeverity,
  BrokerUnavailableError,
  ConfigError,
  type ConfigIssue,
  DatabaseUnavailableError,
  DuplicateJobError,
  type ErrorCode,
  errorCodes,
  type FailureClass,
  failureClasses,
  HeadersError,
  InvalidTransitionError,
  JobCancelledError,
  JobFailedError,
  JobNotFoundError,
  JobTimeoutError,
  LeaseLostError,
  NameError,
  NonRetryableError,
  NotInTransactionError,
  PayloadError,
  PayloadUnavailableError,
  QueueFullError,
  PublishError,
  type PublishErrorReason,
  RetryAfterError,
  SchemaVersionError,
  ShutdownError,
  TopologyError,
  TransactionMisusedError,
  UnknownJobError,
  WaybillError,
} from "./errors.ts";
export {
  defineDependency,
  type DependencyDefinition,
  type DependencySettings,
  isDependency,
  type ResolvedDependencySettings,
} from "./dependency.ts";
export { defineEvent, type EventDefinition } from "./event.ts";
export {
  decideFailure,
  type Failure,
  type FailureDecision,
  failureOf,
  failurePolicies,
  type FailurePolicy,
  statedFailure,
} from "./failure.ts";
export { isReservedHeader } from "./header-values.ts";
export { canonicalUuid, derivedId, newJobId } from "./id.ts";
export {
  type CheckpointInput,
  type CheckpointOf,
  defineJob,
  type JobDefinition,
  type JobOptions,
  type PayloadInput,
  type PayloadOutput,
  type ResolvedJobOptions,
  type ResultOf,
} from "./job.ts";
export { createKeyRing, isKeyRing, type KeyRing, keyRingRule } from "./key-ring.ts";
export { type Logger, silentLogger } from "./logger.ts";
export { safeLogger } from "./safe-logger.ts";
export {
  checkKey,
  checkQueueName,
  checkSchemaName,
  checkTopologyPrefix,
  checkTypeName,
  isTypeName,
} from "./names.ts";
export { parseOptions } from "./options.ts";
export {
  decodePayload,
  encodePayload,
  jsonDepth,
  payloadBytesDefault,
  payloadBytesMax,
  payloadDepthMax,
  type PayloadResult,
} from "./payload.ts";
export { defineQueue, type QueueDefinition } from "./queue.ts";
export {
  bucketOf,
  dependsOnOf,
  type KeyLimits,
  keyLimitsOf,
  type KeySettings,
  type OrderSettings,
  type PrioritySettings,
  queueSettingNames,
  type QueueSettings,
  queueSettings,
  type RateLimit,
  settingsMisfits,
  type TypeLimits,
  type WaitingLimits,
} from "./queue-settings.ts";
export {
  type InputOf,
  type OutputOf,
  type StandardSchema,
  type StandardSchemaIssue,
  type StandardSchemaResult,
  validateValue,
  type ValueIssue,
} from "./standard-schema.ts";
export { isSealed, openPayload, type PayloadIdentity, sealPayload } from "./sealed-payload.ts";
export {
  signatureOf,
  type SignatureProblem,
  signatureProblem,
  type SignatureScope,
  type SignedParts,
} from "./signature.ts";
export { canTransition, isTerminal, type JobState, jobStates, transitions } from "./states.ts";
export {
  defineTerminalEvent,
  isTerminalEvent,
  type JobEnded,
  type TerminalEvent,
} from "./terminal-event.ts";
export { cleanText, redactUrl } from "./text.ts";
export { type Upcaster, type UpcasterSteps } from "./upcasters.ts";
export { issuesAt, valueText } from "./value-text.ts";
