import type { OutboxPage, OutboxRow, PageLimits, RelayStore } from "@waybill/postgres";
import { TermLostError } from "./cursor-saver.ts";
import type { Destinations } from "./destinations.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Governor } from "./governed/governor.ts";
import { cursorOf } from "./position-check.ts";
import type { Term } from "./term.ts";
import type { WakeUp } from "./wake-up.ts";
import { advance, type Cursor, nextRead, type WindowRead } from "./window-planner.ts";

/** Options of {@link readOutbox}. */
export interface WindowReaderOptions {
  readonly store: RelayStore;
  readonly term: Term;
  readonly dispatcher: Dispatcher;
  readonly destinations: Destinations;
  readonly wakeUp: WakeUp;
  readonly governor: Pick<Governor, "governs" | "take">;
  /** Where to begin. */
  readonly cursor: Cursor;
  readonly limits: PageLimits;
  /**
   * Behind a transaction pooler the server may have crashed or changed between two statements, and
   * what was never saved there means nothing to it. Then every read starts from the position that
   * is stored, so one page is on its way at a time.
   */
  readonly strict: boolean;
  /** Saves the cursor and waits for it. */
  readonly saved: () => Promise<void>;
}

/** Runs the read that the planner asks for. */
export async function runRead(
  store: RelayStore,
  read: WindowRead,
  limits: PageLimits,
): Promise<OutboxPage> {
  switch (read.kind) {
    case "window":
      return await store.readWindow(read.after, read.late, limits);
    case "late":
      return await store.readLatePage(read.xids, read.tx, read.seq, limits);
    case "fresh":
      return await store.readFreshPage(read.until, read.tx, read.seq, limits);
    case "keyed":
      return await store.readKeyedPage(read, read.seq, read.to, limits);
  }
}

async function storedCursor(store: RelayStore, epoch: string): Promise<Cursor> {
  const record = await store.readCursor(epoch);
  if (record === undefined) throw new TermLostError();
  return cursorOf(record);
}

const queuesOf = (rows: readonly OutboxRow[]): Set<string> => {
  const queues = new Set<string>();
  for (const { queue } of rows) if (queue !== null) queues.add(queue);
  return queues;
};

/**
 * Reads the outbox window by window and hands the pages to the dispatcher, until the signal.
 *
 * @throws what the database says, or TermLostError
 */
export async function readOutbox(options: WindowReaderOptions, signal: AbortSignal): Promise<void> {
  const { store, term, dispatcher, destinations, wakeUp, limits, strict, saved } = options;
  const { governor } = options;
  let { cursor } = options;
  let found = true;
  while (!signal.aborted) {
    if (!dispatcher.hasRoom || (strict && dispatcher.unsettled > 0)) {
      await Promise.race([dispatcher.changed(), aborted(signal)]);
      continue;
    }
    // A process that was frozen may have lost the term meanwhile.
    if (!term.isFresh) await term.renew();
    wakeUp.looking(found);
    if (strict) cursor = await storedCursor(store, term.epoch);
    const read = nextRead(cursor);
    const step = advance(cursor, read, await runRead(store, read, limits));
    found = step.rows.length > 0;
    if (strict && !found && step.cursor.window === null && cursor.window === null) {
      // An empty window need not move the position, and without a save it must not.
      await wakeUp.wait(signal);
      continue;
    }
    cursor = step.cursor;
    if (found) await destinations.ensure(queuesOf(step.rows));
    const governed: OutboxRow[] = [];
    const others: OutboxRow[] = [];
    for (const row of step.rows) (governor.governs(row) ? governed : others).push(row);
    const page = dispatcher.add(others, cursor, governed.length);
    if (governed.length > 0) governor.take(governed, page);
    if (strict) {
      while (dispatcher.unsettled > 0 && !signal.aborted) {
        await Promise.race([dispatcher.changed(), aborted(signal)]);
      }
      await saved();
    } else if (!found && cursor.window === null) await wakeUp.wait(signal);
  }
}

const waits = new WeakMap<AbortSignal, Promise<void>>();

/** Resolves when the signal is aborted. One listener a signal, however often it is asked. */
function aborted(signal: AbortSignal): Promise<void> {
  let wait = waits.get(signal);
  if (wait === undefined) {
    wait = new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
    waits.set(signal, wait);
  }
  return wait;
}
