import { expect, test } from "vitest";

import { type PreparedMessage, prepareMessage } from "./outgoing-message.ts";
import { PublishWindow } from "./publish-window.ts";

function prepared(key: number, exchange = "x"): PreparedMessage<number> {
  const result = prepareMessage({
    key,
    exchange,
    routingKey: "k",
    content: Buffer.from("{}"),
    properties: { messageId: `m${key}`, type: "t", headers: {} },
  });
  if (typeof result === "string") throw new Error(result);
  return result;
}

function windowOf(count: number): PublishWindow<number> {
  const window = new PublishWindow<number>();
  for (let key = 1; key <= count; key += 1) window.add(prepared(key), key * 10);
  return window;
}

const keys = (entries: readonly { prepared: PreparedMessage<number> }[]): number[] =>
  entries.map((entry) => entry.prepared.message.key);

test("a multiple confirm settles every message up to its number and no other", () => {
  const window = windowOf(6);

  expect(keys(window.settle(3, false))).toEqual([3]);
  expect(keys(window.settle(5, true))).toEqual([1, 2, 4, 5]);
  expect(keys(window.settle(5, true))).toEqual([]);
  expect(keys(window.settle(6, true))).toEqual([6]);
  expect(window.size).toBe(0);
  expect(window.bytes).toBe(0);
});

test("confirms out of order settle each message once", () => {
  const window = windowOf(4);

  expect(keys([4, 2, 2, 1, 3].flatMap((number) => [...window.settle(number, false)]))).toEqual([
    4, 2, 1, 3,
  ]);
  expect(window.oldestSentAtMs()).toBeUndefined();
});

test("the oldest message is the oldest without confirm", () => {
  const window = windowOf(3);
  window.settle(1, false);

  expect(window.oldestSentAtMs()).toBe(20);
  window.settle(3, false);
  expect(window.oldestSentAtMs()).toBe(20);
});

test("a return marks the message of its own address when one id is on its way twice", () => {
  const window = new PublishWindow<number>();
  window.add(prepared(1, "jobs"), 0);
  window.add(prepared(1, "dlx"), 0);

  expect(window.markReturned({ messageId: "m1", exchange: "dlx", routingKey: "k" }, "why")).toBe(
    true,
  );
  expect(window.settle(2, true).map(({ returned }) => returned)).toEqual([undefined, "why"]);
  expect(window.markReturned({ messageId: "m1", exchange: "dlx", routingKey: "k" }, "why")).toBe(
    false,
  );
});

test("a reset hands over what is left, oldest first, and starts again at number 1", () => {
  const window = windowOf(3);
  window.settle(2, false);

  expect(keys(window.reset())).toEqual([1, 3]);
  window.add(prepared(9), 0);
  expect(keys(window.settle(1, false))).toEqual([9]);
});
