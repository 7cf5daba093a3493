import { expect, test } from "vitest";

import { capabilitiesOf } from "./capabilities.ts";

test("every supported version gets the row of the newest release not above it", () => {
  expect(capabilitiesOf("3.10.8")).toMatchObject({
    supported: true,
    defaultDeliveryLimit: undefined,
    nackCountsTowardsDeliveryLimit: true,
    consumerTimeoutPolicy: false,
    quorumPriorities: "none",
  });
  expect(capabilitiesOf("3.13.7")).toMatchObject({
    consumerTimeoutPolicy: true,
    defaultDeliveryLimit: undefined,
  });
  expect(capabilitiesOf("4.1.0-rc.1")).toMatchObject({
    defaultDeliveryLimit: 20,
    quorumPriorities: "two",
    consumerTimeoutEnds: "channel",
  });
  expect(capabilitiesOf("4.3.5")).toMatchObject({
    nackCountsTowardsDeliveryLimit: false,
    consumerTimeoutEnds: "consumer",
    passiveDeclareNeedsPermission: true,
  });
});

test("a version that is too old or hidden is not supported", () => {
  expect(capabilitiesOf("3.9.29").supported).toBe(false);
  expect(capabilitiesOf("").supported).toBe(false);
});
