import { capabilitiesOf, type ManagementQueue } from "@waybill/rabbitmq";
import { expect, test } from "vitest";
import { checkHolds, consumerTimeoutOf } from "./consumer-timeout.ts";

const queueWith = (argument?: number, policy?: number): ManagementQueue => ({
  name: "waybill.emails",
  durable: true,
  arguments: argument === undefined ? {} : { "x-consumer-timeout": argument },
  effective_policy_definition: policy === undefined ? null : { "consumer-timeout": policy },
});
const modern = capabilitiesOf("4.1.0");
const old = capabilitiesOf("3.10.8");

test("a queue's limit is the lower one of argument and policy, where the broker heeds them", () => {
  expect(consumerTimeoutOf(queueWith(60_000), modern)).toBe(60_000);
  expect(consumerTimeoutOf(queueWith(undefined, 90_000), modern)).toBe(90_000);
  expect(consumerTimeoutOf(queueWith(60_000, 90_000), modern)).toBe(60_000);
  expect(consumerTimeoutOf(queueWith(90_000, 60_000), modern)).toBe(60_000);
  expect(consumerTimeoutOf(queueWith(), modern)).toBeUndefined();
  expect(consumerTimeoutOf(queueWith(60_000, 90_000), old)).toBeUndefined();
  expect(consumerTimeoutOf(queueWith(60_000), undefined)).toBeUndefined();
});

test("a worker that holds deliveries as long as its queue's limit is a problem, past the default a notice", () => {
  const check = (holdMs: number, queue: ManagementQueue, capabilities = modern): unknown =>
    checkHolds({
      holds: [{ worker: "worker-1", queues: ["emails"], holdMs }],
      prefix: "waybill",
      queues: [queue],
      capabilities,
    }).map(({ status, message }) => `${status} ${message}`);

  expect(check(60_000, queueWith(60_000))).toEqual([
    "problem worker-1 holds deliveries of emails for 60 s, and the broker waits 60 s for an ack: longer jobs lose their delivery",
  ]);
  expect(check(59_999, queueWith(60_000))).toEqual([expect.stringMatching(/^ok /)]);
  // A limit above the default is the operator's wish.
  expect(check(2_400_000, queueWith(3_600_000))).toEqual([expect.stringMatching(/^ok /)]);
  expect(check(1_800_000, queueWith())).toEqual([
    expect.stringMatching(
      /^notice .*RabbitMQ waits 30 min .* unless rabbitmq\.conf says otherwise/,
    ),
  ]);
  expect(check(1_800_000, queueWith(60_000), old)).toEqual([expect.stringMatching(/^notice /)]);
  expect(check(600_000, queueWith())).toEqual([expect.stringMatching(/^ok /)]);
});
