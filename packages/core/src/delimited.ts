/**
 * One text of several, from which they can be told apart again: each with its length in bytes of UTF-8
 * before it, so that ("ab", "c") and ("a", "bc") differ.
 */
export function delimited(parts: readonly string[]): string {
  return parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join("");
}
