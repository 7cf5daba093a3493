import type { Logger } from "@waybill/core";
import type { CursorRecord, RelayStore } from "@waybill/postgres";
import { TermLostError } from "./cursor-saver.ts";
import type { Cursor } from "./window-planner.ts";

/** Why a stored position cannot be honoured by this server; undefined where it can. */
export function positionDoubt(
  record: CursorRecord,
  rowWasMissing: boolean,
): { readonly why: string; readonly snapshotTrusted: boolean } | undefined {
  if (rowWasMissing) return { why: "the relay's position was deleted", snapshotTrusted: false };
  // Whatever was restored with the rows still says which of them were published.
  if (record.storedOid !== null && record.storedOid !== record.oid) {
    return { why: "the tables were restored from a dump", snapshotTrusted: true };
  }
  const { storedSystem, system } = record;
  if (storedSystem !== null && system !== null && storedSystem !== system) {
    return { why: "the database is on another server", snapshotTrusted: true };
  }
  if (record.beyond) {
    return { why: "the position lies beyond the server's transactions", snapshotTrusted: false };
  }
  return undefined;
}

/**
 * The cursor to begin a term with. A position that this server cannot honour leads to a rescan of
 * everything that has not ended, never to a start "from now".
 *
 * @throws TermLostError if another relay has taken the term
 */
export async function loadCursor(
  store: RelayStore,
  patient: () => Promise<{ readonly store: RelayStore; close(): Promise<void> }>,
  epoch: string,
  rowWasMissing: boolean,
  logger: Logger,
): Promise<Cursor> {
  const record = await store.readCursor(epoch);
  if (record === undefined) throw new TermLostError();
  const doubt = positionDoubt(record, rowWasMissing);
  if (doubt === undefined) {
    await store.markOrigin(epoch);
    return cursorOf(record);
  }
  logger.warn({ why: doubt.why }, "position cannot be trusted, rescanning the outbox");
  const session = await patient();
  try {
    const rows = await session.store.rescan(epoch, doubt.snapshotTrusted, doubt.why);
    if (rows === undefined) throw new TermLostError();
    logger.warn(
      { why: doubt.why, rows },
      "outbox rescanned, everything unfinished is published again",
    );
  } finally {
    await session.close();
  }
  const fresh = await store.readCursor(epoch);
  if (fresh === undefined) throw new TermLostError();
  return cursorOf(fresh);
}

/** The cursor alone. */
export function cursorOf(record: CursorRecord): Cursor {
  const { snapshot, window, keyed, tx, seq, keyedFrom, keyedTo } = record;
  return { snapshot, window, keyed, tx, seq, keyedFrom, keyedTo };
}
