/**
 * What differs between RabbitMQ versions, in one table: no other file compares versions. Each row
 * says what is true from that version on; a row overrides the rows above it.
 */

/** What the connected broker can do, read once per connection from its version. */
export interface BrokerCapabilities {
  /** As the broker says it, for example "3.10.8". */
  readonly version: string;
  /** False for a version below 3.10, where quorum queues lack at-least-once dead-lettering. */
  readonly supported: boolean;
  /** Delivery limit of a quorum queue that sets none; undefined: no limit. */
  readonly defaultDeliveryLimit: number | undefined;
  /** True where a `basic.nack` with requeue counts towards the delivery limit. */
  readonly nackCountsTowardsDeliveryLimit: boolean;
  /** True where a policy may set `consumer-timeout`. */
  readonly consumerTimeoutPolicy: boolean;
  /** `consumer`: a consumer timeout cancels the consumer; `channel`: it closes the channel. */
  readonly consumerTimeoutEnds: "channel" | "consumer";
  /** Priorities of quorum queues. */
  readonly quorumPriorities: "none" | "two" | "strict";
  /** True where a policy may say `apply-to: quorum_queues`. */
  readonly policyAppliesToQueueTypes: boolean;
  /** The broker's default limit of a message's body, in bytes. */
  readonly defaultMaxMessageBytes: number;
  /** True where a passive declare needs a permission on the name. */
  readonly passiveDeclareNeedsPermission: boolean;
}

type Row = Omit<BrokerCapabilities, "version">;

const MIB = 1024 * 1024;

const table: readonly (readonly [from: string, changes: Partial<Row>])[] = [
  ["3.10.0", { supported: true }],
  ["3.12.0", { consumerTimeoutPolicy: true, policyAppliesToQueueTypes: true }],
  [
    "4.0.0",
    { defaultDeliveryLimit: 20, quorumPriorities: "two", defaultMaxMessageBytes: 16 * MIB },
  ],
  [
    "4.3.0",
    {
      nackCountsTowardsDeliveryLimit: false,
      consumerTimeoutEnds: "consumer",
      quorumPriorities: "strict",
      passiveDeclareNeedsPermission: true,
    },
  ],
];

const before: Row = {
  supported: false,
  defaultDeliveryLimit: undefined,
  nackCountsTowardsDeliveryLimit: true,
  consumerTimeoutPolicy: false,
  consumerTimeoutEnds: "channel",
  quorumPriorities: "none",
  policyAppliesToQueueTypes: false,
  defaultMaxMessageBytes: 128 * MIB,
  passiveDeclareNeedsPermission: false,
};

function parts(version: string): readonly [number, number, number] {
  const match = /^(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?/.exec(version);
  // A broker that hides its version gets the oldest row: it asks the least of it.
  if (match === null) return [0, 0, 0];
  return [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)];
}

function atLeast(version: string, from: string): boolean {
  const have = parts(version);
  const want = parts(from);
  for (const [index, number] of have.entries()) {
    const other = want[index] ?? 0;
    if (number !== other) return number > other;
  }
  return true;
}

/** The capabilities of a broker's version, as `serverProperties.version` gives it. */
export function capabilitiesOf(version: string): BrokerCapabilities {
  let row = before;
  for (const [from, changes] of table) {
    if (atLeast(version, from)) row = { ...row, ...changes };
  }
  return Object.freeze({ version, ...row });
}
