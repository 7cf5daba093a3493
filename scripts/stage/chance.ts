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

/** Numbers in [0, 1) that are always the same for the same seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
