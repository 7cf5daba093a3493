/**
 * Payloads that only producers and workers can read: AES-256-GCM, under a nonce of its own each, bound
 * to the job's id, type and version. A sealed payload is JSON like any other,
 * `{"waybill-sealed":"1:<key id>:<nonce>:<ciphertext and tag>"}` in base64url, and so goes through
 * database, relay and broker, retries, dead letters and redrives as it is.
 */

import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";
import { isUtf8 } from "node:buffer";
import { delimited } from "./delimited.ts";
import { PayloadError } from "./errors.ts";
import { keyIdSource, type KeyRing } from "./key-ring.ts";
import { payloadBytesMax, type PayloadResult } from "./payload.ts";

/** What a sealed payload belongs to; it opens for nothing else. */
export interface PayloadIdentity {
  readonly id: string;
  readonly type: string;
  readonly version: number;
}

const algorithm = "aes-256-gcm";
const domain = "waybill-sealed-1";
const nonceBytes = 12;
const tagBytes = 16;
const beginning = /^\s*\{\s*"waybill-sealed"\s*:/;
const format = new RegExp(
  `^\\s*\\{\\s*"waybill-sealed"\\s*:\\s*"1:(${keyIdSource}):([A-Za-z0-9_-]{16}):([A-Za-z0-9_-]{22,})"\\s*\\}\\s*$`,
);

/** True for a payload's text that is sealed, or that was meant to be. */
export function isSealed(text: string): boolean {
  return beginning.test(text);
}

const identityOf = ({ id, type, version }: PayloadIdentity): Buffer =>
  Buffer.from(delimited([domain, id, type, String(version)]));

/**
 * Encrypts a payload's text with the ring's current key.
 *
 * @throws PayloadError where it is too large once it is encrypted, which takes a third more
 */
export function sealPayload(keys: KeyRing, identity: PayloadIdentity, text: string): string {
  const key = keys.key(keys.currentId);
  if (key === undefined) throw new TypeError(`The ring has no key "${keys.currentId}".`);
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(identityOf(identity));
  const data = Buffer.concat([cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  const sealed = `1:${keys.currentId}:${nonce.toString("base64url")}:${data.toString("base64url")}`;
  const payload = JSON.stringify({ "waybill-sealed": sealed });
  if (payload.length > payloadBytesMax) {
    throw new PayloadError(identity.type, [
      {
        path: "",
        message: `is ${payload.length} bytes once it is encrypted, the limit is ${payloadBytesMax}; store the data and pass a reference`,
      },
    ]);
  }
  return payload;
}

const refused = (message: string): PayloadResult<never> => ({ issues: [{ path: "", message }] });

function decrypt(
  key: KeyObject,
  identity: PayloadIdentity,
  nonce: string,
  data: Buffer,
): Buffer | undefined {
  const options = { authTagLength: tagBytes };
  const decipher = createDecipheriv(algorithm, key, Buffer.from(nonce, "base64url"), options);
  decipher.setAAD(identityOf(identity));
  decipher.setAuthTag(data.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(data.subarray(0, -tagBytes)), decipher.final()]);
  } catch {
    return undefined;
  }
}

/**
 * Decrypts a payload; one that is not sealed is given back as it is.
 *
 * @param keys undefined where this process has none
 * @returns the text, or why it does not open; never anything of a key or of the content
 */
export function openPayload(
  keys: KeyRing | undefined,
  identity: PayloadIdentity,
  text: string,
): PayloadResult<{ readonly text: string }> {
  if (!isSealed(text)) return { text };
  const match = format.exec(text);
  const [, keyId = "", nonce = "", data = ""] = match ?? [];
  if (match === null) return refused("is encrypted in a form that this version does not read");
  const key = keys?.key(keyId);
  if (key === undefined) {
    const lack =
      keys === undefined
        ? "and this process has no option encryption"
        : "which this process does not have";
    return refused(`is encrypted with the key "${keyId}", ${lack}; give it that key`);
  }
  const opened = decrypt(key, identity, nonce, Buffer.from(data, "base64url"));
  return opened === undefined || !isUtf8(opened)
    ? refused(
        `does not open with the key "${keyId}": it is damaged, was made with another key of that id, or for another job`,
      )
    : { text: opened.toString("utf8") };
}
