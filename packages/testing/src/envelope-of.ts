import {
  encodePayload,
  type Envelope,
  type EventDefinition,
  type JobDefinition,
  newJobId,
  payloadBytesMax,
  PayloadError,
  validateValue,
} from "@waybill/core";
import type { Rehearsal } from "@waybill/worker";

/** What a test may say about a job besides its payload. */
export interface GivenJob {
  readonly jobId?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly correlationId?: string | undefined;
  readonly concurrencyKey?: string | undefined;
  readonly subscription?: string | undefined;
}

async function bodyOf(
  name: string,
  schema: JobDefinition["payload"],
  payload: unknown,
): Promise<string> {
  const valid = await validateValue(schema, payload);
  if (valid.issues !== undefined) throw new PayloadError(name, valid.issues);
  // What is enqueued is the input, as the producer gave it.
  const encoded = encodePayload(payload, payloadBytesMax);
  if (encoded.issues !== undefined) throw new PayloadError(name, encoded.issues);
  return encoded.text;
}

/**
 * The message of a job or event as its first delivery would bring it.
 *
 * @throws PayloadError
 */
export async function envelopeOf<Tx>(
  rehearsal: Rehearsal<Tx>,
  definition: JobDefinition | EventDefinition,
  payload: unknown,
  given: GivenJob,
): Promise<Envelope> {
  return {
    id: given.jobId ?? newJobId(),
    idSource: "given",
    queue:
      "options" in definition
        ? definition.options.queue
        : (given.subscription ?? rehearsal.subscriptionsOf(definition.name)[0] ?? "(none)"),
    type: definition.name,
    version: "options" in definition ? definition.options.version : 1,
    dispatch: 1,
    death: 0,
    priority: "options" in definition ? definition.options.priority : null,
    orderingKey: null,
    correlationId: given.correlationId ?? null,
    enqueuedAt: new Date(),
    expiresAt: null,
    runAt: null,
    onTerminal: null,
    concurrencyKey: given.concurrencyKey ?? null,
    slot: null,
    origin: null,
    headers: given.headers ?? {},
    payload: await bodyOf(definition.name, definition.payload, payload),
    payloadBase64: false,
  };
}
