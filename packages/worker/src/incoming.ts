import type { Envelope, UnreadableEnvelope } from "@waybill/core";
import type { Delivery } from "@waybill/rabbitmq";
import { keyOf } from "./settlements.ts";

/** A delivery with what could be read of it. */
export interface Incoming {
  readonly delivery: Delivery;
  readonly envelope: Envelope | UnreadableEnvelope;
  /** Identity of the job within the worker. */
  readonly key: string;
  /** When the message was first parked for want of a handler. */
  readonly parkedAt: Date | null;
  /** When the delivery arrived, by the monotonic clock. */
  readonly receivedAt: number;
}

/** Header in which the time of the first parking goes round with the message. */
const parkedAtHeader = "waybill-parked-at";

/** Puts the parts together. `headers` are the message's own, before decoding. */
export function incomingOf(
  delivery: Delivery,
  envelope: Envelope | UnreadableEnvelope,
  headers: Readonly<Record<string, unknown>>,
): Incoming {
  const parked = headers[parkedAtHeader];
  const at = typeof parked === "string" ? Date.parse(parked) : Number.NaN;
  return {
    delivery,
    envelope,
    key: keyOf(envelope),
    parkedAt: Number.isNaN(at) ? null : new Date(at),
    receivedAt: performance.now(),
  };
}
