export {
  declareMarker,
  exchangeExists,
  isQueueEmpty,
  type QueueDepth,
  queueDepth,
} from "./admin.ts";
export { type BrokerCapabilities, capabilitiesOf } from "./capabilities.ts";
export { type BrokerChannel, type ChannelEnd } from "./channel.ts";
export {
  type BrokerConnection,
  type BrokerConnectionOptions,
  type BrokerConnectionState,
  createBrokerConnection,
} from "./connection.ts";
export { type Delivery } from "./consume-session.ts";
export {
  type Consumer,
  type ConsumerHealth,
  type ConsumerOptions,
  type ConsumerState,
  createConsumer,
} from "./consumer.ts";
export {
  type Definitions,
  definitionsOf,
  type DefinitionsOptions,
  type DefinitionsUser,
  hashPassword,
} from "./definitions.ts";
export { leastRightUsers } from "./least-rights.ts";
export {
  createManagementClient,
  type ManagementBinding,
  type ManagementClient,
  type ManagementClientOptions,
  type ManagementConnection,
  type ManagementExchange,
  type ManagementQueue,
  type ManualMessage,
  type Permissions,
  type Policy,
} from "./management.ts";
export {
  contentBytesMax,
  headerBytesMax,
  type OutgoingMessage,
  type OutgoingProperties,
} from "./outgoing-message.ts";
export {
  createPublisher,
  type Publisher,
  type PublisherOptions,
  type PublishOutcome,
} from "./publisher.ts";
export {
  applyTopology,
  checkTopology,
  type TopologyCheckOptions,
  type TopologyMode,
  type TopologyReport,
  type TopologyResult,
  type TopologyStatus,
} from "./topology-apply.ts";
export { type TopologyDifference } from "./topology-mismatch.ts";
export {
  type BrokerNames,
  deadLetterDeliveryLimit,
  deliveryLimit,
  names,
  type QueueType,
  type Topology,
  type TopologyBinding,
  type TopologyExchange,
  topologyOf,
  type TopologyOptions,
  type TopologyQueue,
} from "./topology.ts";
export {
  type Death,
  deathsOf,
  incomingMessage,
  plainHeaders,
  plainValue,
  type PlainValue,
  wholeNumber,
} from "./wire.ts";
