/** What somebody paused, or a handler closed: that jobs wait there is wanted. */

import { formatDuration } from "../duration.ts";
import { type Finding, fine, notice } from "./finding.ts";
import type { Ask } from "./pipeline-checks.ts";

/** A pause that is older, in milliseconds, may have been forgotten. */
const pauseNoticeMs = 3_600_000;

type Row = Readonly<Record<string, string | null>>;

/** Queues, types and keys that are paused or closed, as they were read. */
export type Pauses = readonly Row[];

export const readPauses = (ask: Ask): Promise<Pauses> => ask("check_pauses");

/** Queues of which nothing is taken now. */
export function pausedQueues(pauses: Pauses): ReadonlySet<string> {
  return new Set(pauses.flatMap(({ kind, queue }) => (kind === null ? [queue ?? ""] : [])));
}

/** Tells what is paused; a notice for what has been for long. */
export function checkPauses(pauses: Pauses): Finding[] {
  if (pauses.length === 0) return [fine("pauses", "no queue is paused")];
  return pauses.map(({ queue, kind, name, paused, pauser, closed }) => {
    const of = kind === null || kind === undefined ? "" : `, ${kind} ${name ?? ""}`;
    const what = `queue ${queue ?? ""}${of}`;
    if (paused === null || paused === undefined) {
      return fine("pauses", `${what} is closed for ${formatDuration(Number(closed))} more`);
    }
    const pausedMs = Number(paused);
    const message = `${what} has been paused by ${pauser ?? "somebody"} for ${formatDuration(pausedMs)}`;
    if (pausedMs < pauseNoticeMs) return fine("pauses", message);
    return notice("pauses", message, `waybill queue resume ${queue ?? ""}, when it is to go on`);
  });
}
