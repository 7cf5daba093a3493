/** The inbox store's records as the JSON that its statements take: column names, storable texts. */

import { type Envelope, waybillHeaders } from "@waybill/core";
import type { FailureRecord, OwnedJob, ParkRequest } from "./inbox-store.ts";

/** PostgreSQL stores no NUL and refuses lone surrogates; a foreign message may hold both anywhere. */
export const clean = (text: string): string => text.replaceAll("\u0000", "\ufffd").toWellFormed();
const cleanOrNull = (text: string | null): string | null => (text === null ? null : clean(text));

/** The payload as it can be stored: bytes that are no storable text travel as base64. */
function payloadOf(envelope: Envelope): { payload: string; payload_base64: boolean } {
  const { payload, payloadBase64 } = envelope;
  if (!payloadBase64 && (payload.includes("\u0000") || !payload.isWellFormed())) {
    return { payload: Buffer.from(payload, "utf8").toString("base64"), payload_base64: true };
  }
  return { payload, payload_base64: payloadBase64 };
}

/** The columns of an envelope, as outbox, timer and dead_letter have them. */
export function envelopeColumns(envelope: Envelope): Record<string, unknown> {
  const headers = Object.entries(envelope.headers).map(([key, value]) => [
    clean(key),
    clean(value),
  ]);
  // Goes round with the message: a later claim may be the one that makes the inbox's row.
  if (envelope.onTerminal !== null) headers.push([waybillHeaders.onTerminal, envelope.onTerminal]);
  if (envelope.concurrencyKey !== null) {
    headers.push([waybillHeaders.concurrencyKey, clean(envelope.concurrencyKey)]);
  }
  return {
    ...payloadOf(envelope),
    type: clean(envelope.type),
    version: envelope.version,
    headers: headers.length === 0 ? null : Object.fromEntries(headers),
    priority: envelope.priority,
    ordering_key: cleanOrNull(envelope.orderingKey),
    correlation_id: cleanOrNull(envelope.correlationId),
    expires_at: envelope.expiresAt,
    enqueued_at: envelope.enqueuedAt,
  };
}

/** What proves that a job is this attempt's. */
export function ownedColumns(job: OwnedJob): Record<string, unknown> {
  const { id, queue, token, leased, slotted } = job;
  return { id, queue, token, leased: leased === true, slotted: slotted === true };
}

/** A failed attempt as fail_attempts.sql takes it. */
export function failureColumns(record: FailureRecord): Record<string, unknown> {
  const { failure } = record;
  return {
    ...envelopeColumns(record.envelope),
    ...ownedColumns(record),
    terminal: record.retryDelayMs === undefined,
    unspent: !record.attempted,
    blocks: record.blocks === true,
    closes: failure.closes ?? null,
    close_ms: failure.retryAfterMs ?? 0,
    concurrency_key: cleanOrNull(record.envelope.concurrencyKey),
    delay_ms: record.retryDelayMs ?? 0,
    failure_class: failure.failureClass,
    message: failure.message,
    stack: failure.stack ?? null,
    fingerprint: failure.fingerprint,
  };
}

/** A message to put aside as park_messages.sql takes it. */
export function parkColumns(request: ParkRequest): Record<string, unknown> {
  const { envelope } = request;
  const columns = envelopeColumns(envelope);
  // A dead letter that was moved back keeps its marker, or it would come back as a duplicate.
  const headers =
    envelope.death > 0
      ? { ...(columns["headers"] as object | null), [waybillHeaders.death]: String(envelope.death) }
      : columns["headers"];
  return {
    ...columns,
    headers,
    id: envelope.id,
    queue: envelope.queue,
    dispatch: envelope.dispatch,
    reason: request.reason,
    detail: clean(request.detail),
    owner: request.owner,
    delay_ms: request.delayMs,
    window_ms: request.windowMs,
    parked_at: request.parkedAt,
    fire_at: request.fireAt,
  };
}
