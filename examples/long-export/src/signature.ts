/**
 * Signatures of webhooks, as Standard Webhooks 1.0 asks for them: HMAC-SHA256 over
 * `<id>.<timestamp>.<body>`, so that neither can be changed or used again for long.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */

import { createHmac, timingSafeEqual } from "node:crypto";

/** Seconds that a receiver accepts between its clock and the signature's. */
const toleranceSeconds = 300;

/** Headers of a signed webhook. */
export interface WebhookHeaders {
  readonly "webhook-id": string;
  readonly "webhook-timestamp": string;
  readonly "webhook-signature": string;
}

function signatureOf(secret: Buffer, id: string, timestamp: string, body: string): Buffer {
  return createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest();
}

/** Signs a body. The same `id` in every attempt lets the receiver tell a second call from news. */
export function signWebhook(
  secret: Buffer,
  id: string,
  body: string,
  nowMs: number = Date.now(),
): WebhookHeaders {
  const timestamp = String(Math.floor(nowMs / 1_000));
  const signature = signatureOf(secret, id, timestamp, body).toString("base64");
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${signature}`,
  };
}

/** True for a body that whoever has the secret has signed within the last minutes. */
export function isSigned(
  secret: Buffer,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  body: string,
  nowMs: number = Date.now(),
): boolean {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": given } = headers;
  if (typeof id !== "string" || typeof timestamp !== "string" || typeof given !== "string") {
    return false;
  }
  const age = Math.abs(nowMs / 1_000 - Number(timestamp));
  if (!(age <= toleranceSeconds)) return false;
  const expected = signatureOf(secret, id, timestamp, body);
  // Several signatures while a secret is being replaced.
  return given.split(" ").some((each) => {
    const [version, text = ""] = each.split(",", 2);
    const signature = Buffer.from(text, "base64");
    return (
      version === "v1" &&
      signature.length === expected.length &&
      timingSafeEqual(signature, expected)
    );
  });
}
