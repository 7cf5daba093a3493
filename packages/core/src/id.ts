import { createHash } from "node:crypto";
import { uuidv7 } from "uuidv7";
import { delimited } from "./delimited.ts";

/** A fresh job id: UUIDv7, increasing within the process. */
export function newJobId(): string {
  return uuidv7();
}

const uuidText = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** The usual form of a UUID (lower case, dashes), or undefined for any other text. */
export function canonicalUuid(text: string): string | undefined {
  return uuidText.test(text) ? withDashes(text) : undefined;
}

function withDashes(text: string): string {
  const hex = text.replaceAll("-", "").toLowerCase();
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join("-");
}

/** Namespace of the ids that Waybill derives from foreign message ids. */
const namespaceHex = "0d5a3a0e5f9c4e6f8a4b3c2d1e0f9a8b";
const namespaceBytes = Buffer.from(namespaceHex, "hex");

/** UUIDv5 (RFC 9562, section 5.5) of the parts in Waybill's namespace. */
export function derivedId(...parts: readonly string[]): string {
  const name = delimited(parts);
  const hash = createHash("sha1").update(namespaceBytes).update(name).digest().subarray(0, 16);
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x50;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  return withDashes(hash.toString("hex"));
}
