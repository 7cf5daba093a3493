/** A row as PostgreSQL's to_jsonb made it: snake_case keys, instants as text. */
export type JsonRow = Readonly<Record<string, unknown>>;

export const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
export const integer = (value: unknown): number => Number(value ?? 0);
export const integerOrNull = (value: unknown): number | null =>
  value === null || value === undefined ? null : Number(value);

/** Null for SQL null, for infinity, and for what is no instant. */
export function instant(value: unknown): Date | null {
  if (typeof value !== "string") return null;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? null : date;
}

export const knownInstant = (value: unknown): Date => instant(value) ?? new Date(0);
