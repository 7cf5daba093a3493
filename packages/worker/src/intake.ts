import {
  type DecodeContext,
  decodeEnvelope,
  type DecoderName,
  isUnreadable,
  newJobId,
  payloadBytesMax,
} from "@waybill/core";
import { type Delivery, incomingMessage } from "@waybill/rabbitmq";
import { authentic, type AuthenticityRule } from "./authenticity.ts";
import type { Claims } from "./claims.ts";
import type { InFlight } from "./in-flight.ts";
import { incomingOf } from "./incoming.ts";
import type { Parking } from "./parking.ts";
import type { Registry } from "./registry.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Options of {@link Intake}. */
export interface IntakeOptions<Tx> {
  readonly queue: WorkQueue;
  readonly decoder: DecoderName;
  readonly untypedJob: string | undefined;
  /** Undefined where every message is believed. */
  readonly authenticity: AuthenticityRule | undefined;
  readonly registry: Registry<Tx>;
  readonly claims: Claims<Tx>;
  readonly parking: Parking;
  readonly inFlight: InFlight;
  readonly bootId: () => string | undefined;
  /** True where a message needs a slot to be run. */
  readonly governs: () => boolean;
  /** False while nothing may be taken: what arrives goes back. */
  readonly accepts: () => boolean;
}

/** The door of one queue: decodes each delivery and shows it its way. */
export class Intake<Tx> {
  readonly #options: IntakeOptions<Tx>;
  readonly #context: DecodeContext;

  constructor(options: IntakeOptions<Tx>) {
    this.#options = options;
    this.#context = {
      decoder: options.decoder,
      untypedJob: options.untypedJob,
      maxBytes: payloadBytesMax,
      newId: newJobId,
      now: () => new Date(),
    };
  }

  /** Takes a delivery. Never throws. */
  take(delivery: Delivery): void {
    const { queue, registry, claims, parking, accepts, inFlight, authenticity } = this.#options;
    const me = this.#options.bootId();
    if (!accepts()) {
      delivery.requeue();
      return;
    }
    const message = incomingMessage(delivery.message, queue.name);
    const decoded = decodeEnvelope(message, this.#context);
    const envelope =
      authenticity === undefined ? decoded : authentic(message, decoded, authenticity);
    const incoming = incomingOf(delivery, envelope, message.headers);
    if (isUnreadable(envelope)) {
      claims.track(parking.reject(incoming));
    } else if (envelope.runAt !== null) {
      claims.track(parking.delay(incoming, envelope.runAt));
    } else if (registry.find(queue.name, envelope.type, envelope.version) === undefined) {
      const what = registry.knowsType(envelope.type)
        ? `version ${envelope.version} of "${envelope.type}"`
        : `"${envelope.type}"`;
      claims.track(parking.park(incoming, `no worker has a handler for ${what}`));
    } else if (inFlight.has(incoming.key) && me !== undefined) {
      claims.hold(incoming, me);
    } else if (envelope.slot === null && this.#options.governs()) {
      claims.track(parking.toBacklog(incoming));
    } else {
      queue.push(incoming);
      claims.schedule();
    }
  }
}
