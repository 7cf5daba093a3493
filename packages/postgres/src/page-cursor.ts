import { ConfigError } from "@waybill/core";

/** A place in a list, as one opaque text: base64url of a JSON array of texts. */
export function encodeCursor(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts), "utf8").toString("base64url");
}

/**
 * Reads a place back.
 *
 * @param shapes one pattern for each part
 * @throws ConfigError for a text that no page of this list gave
 */
export function decodeCursor(
  subject: string,
  cursor: string,
  shapes: readonly RegExp[],
): readonly string[] {
  const parts = partsOf(cursor);
  if (
    parts.length === shapes.length &&
    shapes.every((shape, n) => typeof parts[n] === "string" && shape.test(parts[n]))
  ) {
    return parts as string[];
  }
  throw new ConfigError(subject, [
    { path: "cursor", message: "must be the nextCursor of a page of this list" },
  ]);
}

function partsOf(cursor: string): readonly unknown[] {
  if (typeof cursor !== "string" || cursor.length > 1_000) return [];
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8"));
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}
