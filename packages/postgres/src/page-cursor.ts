import { ConfigError } from "@waybill/core";

/** Above every id. */
export const uuidMax = "ffffffff-ffff-ffff-ffff-ffffffffffff";
/** A job's id in a place. */
export const uuidShape: RegExp = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Above every queue name, which begins with a letter or digit. */
export const queueMax = "~";
/** A queue's name in a place, or {@link queueMax}. */
export const queueShape: RegExp = /^[a-z0-9~][a-z0-9._-]{0,62}$/;

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
