import { expect, test } from "vitest";

import { mismatchMessage, parseMismatch } from "./topology-mismatch.ts";

const wrap = (text: string): string =>
  `Operation failed: QueueDeclare; 406 (PRECONDITION-FAILED) with message "PRECONDITION_FAILED - ${text}"`;

test("a differing argument is read with both values", () => {
  const text = wrap(
    `inequivalent arg 'x-queue-type' for queue 'waybill.email' in vhost '/': received the value 'quorum' of type 'longstr' but current is the value 'classic' of type 'longstr'`,
  );

  expect(parseMismatch(text)).toEqual({
    argument: "x-queue-type",
    wanted: "quorum",
    found: "classic",
  });
});

test("an argument that is not set is read as none", () => {
  const text = wrap(
    `inequivalent arg 'x-delivery-limit' for queue 'q' in vhost '/': received the value '50' of type 'signedint' but current is none`,
  );

  expect(parseMismatch(text)).toEqual({
    argument: "x-delivery-limit",
    wanted: "50",
    found: "none",
  });
});

test("a property is read like an argument", () => {
  const text = wrap(
    `inequivalent arg 'type' for exchange 'waybill.jobs' in vhost '/': received 'topic' but current is 'direct'`,
  );

  expect(parseMismatch(text)).toEqual({ argument: "type", wanted: "topic", found: "direct" });
});

test("a text that the protocol cut still names the argument", () => {
  const text = `inequivalent arg 'x-overflow' for queue 'a' in vhost '/': received the value 'reject-pub...`;

  expect(parseMismatch(text)).toEqual({
    argument: "x-overflow",
    wanted: undefined,
    found: undefined,
  });
  expect(parseMismatch("something else")).toBeUndefined();
});

test("the message names queue, argument, both values and the way out", () => {
  const message = mismatchMessage("queue", "waybill.email", [
    { argument: "x-queue-type", found: "classic", wanted: "quorum" },
  ]);

  expect(message).toContain(
    `Cannot use queue "waybill.email" as it is: x-queue-type is "classic", wanted is "quorum". `,
  );
  expect(message).toContain("waybill topology apply");
});
