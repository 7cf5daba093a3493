import { createHash } from "node:crypto";

function digest(seed: number, labels: readonly (string | number)[]): Buffer {
  return createHash("sha256")
    .update([seed, ...labels].join("\n"))
    .digest();
}

/** A number in [0, 1) that is always the same for the same seed and labels. */
export function chance(seed: number, ...labels: readonly (string | number)[]): number {
  return digest(seed, labels).readUInt32BE(0) / 2 ** 32;
}

/** A UUID that is always the same for the same seed and labels. */
export function chosenUuid(seed: number, ...labels: readonly (string | number)[]): string {
  const hex = digest(seed, labels).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
