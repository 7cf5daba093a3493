/**
 * Pages of jobs, newest first by id. A filter may match few of many jobs, so a page is gathered in several
 * looks, each at so many jobs at most: it may hold fewer jobs than its limit and still have a next one.
 */

import type { Row } from "./executor.ts";
import type { JsonRow } from "./json-row.ts";
import {
  decodeCursor,
  encodeCursor,
  queueMax,
  queueShape,
  uuidMax,
  uuidShape,
} from "./page-cursor.ts";

/** Jobs of a page where nothing is said. */
export const pageLimitDefault = 50;
/** Jobs that one look at a filtered list sees, and looks of one call. */
const seenPerLook = 10_000;
const looksMax = 10;

/** What a page is made of. */
export interface JobPageOptions<Job> {
  readonly limit: number;
  /** Where it begins: what {@link pagePlace} says. */
  readonly place: readonly string[];
  /** False where every job that is seen is on the page. */
  readonly isFiltered: boolean;
  /**
   * One look: the statement's first parameters are the place behind which it begins, how many jobs it may
   * see, and how many are wanted. Its one row has `jobs` as JSON, `seen`, and the last place as `id` and `queue`.
   */
  readonly look: (parameters: readonly string[]) => Promise<readonly Row[]>;
  readonly jobOf: (row: JsonRow) => Job;
}

/**
 * Where a page begins.
 *
 * @throws ConfigError for a cursor that is none
 */
export function pagePlace(subject: string, cursor: string | undefined): readonly string[] {
  return cursor === undefined
    ? [uuidMax, queueMax]
    : decodeCursor(subject, cursor, [uuidShape, queueShape]);
}

/** Gathers a page; `nextCursor` is null on the last one. */
export async function jobPage<Job extends { readonly id: string; readonly queue: string }>(
  options: JobPageOptions<Job>,
): Promise<{ readonly jobs: readonly Job[]; readonly nextCursor: string | null }> {
  const { limit, isFiltered, look, jobOf } = options;
  let { place } = options;
  const jobs: Job[] = [];
  for (let looks = 0; looks < looksMax; looks += 1) {
    const wanted = limit - jobs.length;
    const seenMax = isFiltered ? seenPerLook : wanted;
    const [row] = await look([...place, String(seenMax), String(wanted)]);
    jobs.push(...(JSON.parse(String(row?.["jobs"])) as readonly JsonRow[]).map(jobOf));
    const last = jobs.at(-1);
    if (jobs.length >= limit && last !== undefined) {
      return { jobs, nextCursor: encodeCursor([last.id, last.queue]) };
    }
    if (Number(row?.["seen"]) < seenMax) return { jobs, nextCursor: null };
    place = [String(row?.["id"]), String(row?.["queue"])];
  }
  return { jobs, nextCursor: encodeCursor(place) };
}
