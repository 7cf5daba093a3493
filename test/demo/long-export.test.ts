/** The example of a long job, as it is started by hand, with fewer rows; and its signatures. */

import { expect, test } from "vitest";
import { isSigned, signWebhook } from "../../examples/long-export/src/signature.ts";
import { runScript, type ScriptRun } from "./run-script.ts";

const runExample = (...args: string[]): Promise<ScriptRun> =>
  runScript("examples/long-export/src/long-export.ts", ...args);

test("an export whose workers are killed goes on from its checkpoints, no row twice and none missing, and tells its end", async () => {
  const { code, stdout, stderr } = await runExample("--rows", "30000", "--kills", "2");

  expect(stderr).toBe("");
  expect(stdout.trimEnd().split("\n").at(-1)).toBe(
    "long-export: 30000 rows, 2 kills, resumed 2 times, 0 rows doubled, 0 rows missing",
  );
  expect(stdout).toContain("the job is cancelled, by user 17 (wrong quarter)");
  const webhooks = [...stdout.matchAll(/signed webhook received: (.*)/g)].map(
    ([, body = ""]) => JSON.parse(body) as unknown,
  );
  expect(webhooks).toEqual([
    expect.objectContaining({ state: "succeeded", result: { rows: 30_000 } }),
    expect.objectContaining({ state: "cancelled", cancelledBy: "user 17" }),
  ]);
  expect(code).toBe(0);
}, 180_000);

test("the example of a long export refuses a wrong option with exit code 2 and says which", async () => {
  const { code, stdout, stderr } = await runExample("--rows", "10");

  expect(code).toBe(2);
  expect(stdout).toBe("");
  expect(stderr).toContain("--rows");
});

const secret = Buffer.from("the customer's secret");
const id = "01a22c41-82b8-70a4-a2c2-7c3b37e9a359";
const body = '{"state":"succeeded"}';
const nowMs = 1_796_000_000_500;

// Made with openssl dgst -sha256 -hmac.
const signature = "+FivLInL1BOPSIN9gP1q3mn1aQhqlLBIisVBeHj0s2g=";

test("a webhook's signature is the HMAC of id, time and body, joined by dots", () => {
  expect(signWebhook(secret, id, body, nowMs)).toEqual({
    "webhook-id": id,
    "webhook-timestamp": "1796000000",
    "webhook-signature": `v1,${signature}`,
  });
});

test("a webhook is genuine as it was sent and for five minutes, also beside signatures of another secret", () => {
  const headers = signWebhook(secret, id, body, nowMs);
  const other = signWebhook(Buffer.from("another secret"), id, body, nowMs);
  const both = `${other["webhook-signature"]} ${headers["webhook-signature"]}`;

  expect(isSigned(secret, { ...headers }, body, nowMs)).toBe(true);
  expect(isSigned(secret, { ...headers }, body, nowMs + 299_000)).toBe(true);
  expect(isSigned(secret, { ...headers, "webhook-signature": both }, body, nowMs)).toBe(true);
});

test.each([
  ["another body", {}, '{"state":"failed"}', 0],
  ["another id", { "webhook-id": "01a22c41" }, body, 0],
  ["another time", { "webhook-timestamp": "1796000001" }, body, 0],
  ["a time that is none", { "webhook-timestamp": "soon" }, body, 0],
  ["a replay after five minutes", {}, body, 301_000],
  ["a clock that is five minutes behind", {}, body, -301_000],
  ["no signature", { "webhook-signature": "" }, body, 0],
  ["a signature of another version", { "webhook-signature": "v2,AAAA" }, body, 0],
  ["a signature of another length", { "webhook-signature": "v1,AAAA" }, body, 0],
])("a webhook with %s is refused", (_what, changed, given, laterMs) => {
  const headers = { ...signWebhook(secret, id, body, nowMs), ...changed };

  expect(isSigned(secret, headers, given, nowMs + laterMs)).toBe(false);
});

test("a webhook without its headers, or signed with another secret, is refused", () => {
  const headers = signWebhook(Buffer.from("another secret"), id, body, nowMs);

  expect(isSigned(secret, { ...headers }, body, nowMs)).toBe(false);
  expect(isSigned(secret, {}, body, nowMs)).toBe(false);
});
