import { type KeyRing, type OutgoingEnvelope, signatureOf, waybillHeaders } from "@waybill/core";
import type { OutboxRow } from "@waybill/postgres";

/**
 * The headers of a row's message, with its signature. Routes get none, since they leave for others. The
 * dead letter of a message that was refused gets none either: signed, it would run once somebody has
 * moved it back to its queue.
 */
export function signedHeaders(
  envelope: OutgoingEnvelope,
  row: Pick<OutboxRow, "kind" | "queue" | "headers">,
  keys: KeyRing,
): OutgoingEnvelope["headers"] {
  const { headers, timestampSeconds: timestamp } = envelope;
  if (row.kind === "route" || row.headers?.[waybillHeaders.errorClass] === "unauthentic") {
    return headers;
  }
  const scope = row.kind === "event" ? "event" : (`queue:${row.queue ?? ""}` as const);
  const parts = { ...envelope, timestamp, contentEncoding: undefined };
  const signature = signatureOf(keys, scope, parts);
  return signature === undefined ? headers : { ...headers, [waybillHeaders.signature]: signature };
}
