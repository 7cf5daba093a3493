/** What goes in and out of a handler, checked: payload, checkpoint, result. */

import {
  decodePayload,
  type Envelope,
  issuesAt,
  type KeyRing,
  openPayload,
  PayloadError,
  payloadBytesMax,
  validateValue,
  valueText,
} from "@waybill/core";
import type { Registration } from "./registry.ts";
import { upcast } from "./upcast.ts";

/** Largest result, in bytes of JSON: 64 KiB. */
export const resultBytesMax = 65_536;
/** Largest checkpoint, in bytes of JSON: 64 KiB. */
export const checkpointBytesMax = 65_536;

type Checked = Pick<
  Registration<never>,
  "name" | "version" | "payload" | "checkpoint" | "result" | "upcasters"
>;

/**
 * The payload as the handler gets it: opened, parsed, brought up to the handler's version, and accepted
 * by its schema.
 *
 * @param encryption keys that open it, where it is encrypted
 * @throws PayloadError
 */
export async function payloadOf(
  registration: Checked,
  envelope: Envelope,
  encryption: KeyRing | undefined,
): Promise<unknown> {
  const { name, payload: schema } = registration;
  if (envelope.payloadBase64) throw new PayloadError(name, [{ path: "", message: "is not text" }]);
  const opened = openPayload(encryption, envelope, envelope.payload);
  if (opened.issues !== undefined) throw new PayloadError(name, opened.issues);
  const decoded = decodePayload(opened.text, payloadBytesMax);
  if (decoded.issues !== undefined) throw new PayloadError(name, decoded.issues);
  const valid = await validateValue(schema, upcast(registration, envelope.version, decoded.value));
  if (valid.issues !== undefined) throw new PayloadError(name, valid.issues);
  return valid.value;
}

/**
 * A handler's result as JSON text; null where the definition has no schema for one.
 *
 * @throws PayloadError
 */
export async function resultText(registration: Checked, value: unknown): Promise<string | null> {
  const { name, result: schema } = registration;
  return schema === undefined ? null : valueText(name, "(result)", schema, value, resultBytesMax);
}

/**
 * A checkpoint as JSON text.
 *
 * @throws PayloadError
 */
export async function checkpointText(registration: Checked, value: unknown): Promise<string> {
  const { name, checkpoint: schema } = registration;
  if (schema === undefined) {
    throw new PayloadError(name, [
      { path: "(checkpoint)", message: "has no schema; add `checkpoint` to the job's definition" },
    ]);
  }
  return valueText(name, "(checkpoint)", schema, value, checkpointBytesMax);
}

/**
 * A stored checkpoint as the handler gets it. One that does not fit the schema any more fails the
 * job for good: to begin again without it could repeat what it stands for.
 *
 * @throws PayloadError
 */
export async function checkpointOf(registration: Checked, text: string): Promise<unknown> {
  const { name, checkpoint: schema } = registration;
  if (schema === undefined) return undefined;
  const valid = await validateValue(schema, JSON.parse(text));
  if (valid.issues === undefined) return valid.value;
  throw new PayloadError(name, issuesAt("(stored checkpoint)", valid.issues));
}
