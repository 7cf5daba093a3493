/** Acts on several jobs, one after the other: each is reported, and one that fails stops no other. */

import { WaybillError } from "@waybill/core";
import { type ExitCode, exitCodes } from "./exit-codes.ts";
import type { Output } from "./output.ts";

/** What became of one job. */
export interface ActResult {
  readonly id: string;
  readonly ok: boolean;
  /** What was done; of one that failed, undefined. */
  readonly action: string | undefined;
  /** Why it was not done. */
  readonly message: string | undefined;
}

/**
 * Runs `act` for each id; it answers with what it did.
 *
 * @throws what is no Waybill error: a lost connection would fail all the others as well
 */
export async function actOnEach(
  ids: readonly string[],
  act: (id: string) => Promise<string>,
): Promise<readonly ActResult[]> {
  const results: ActResult[] = [];
  for (const id of ids) {
    try {
      results.push({ id, ok: true, action: await act(id), message: undefined });
    } catch (error) {
      if (!WaybillError.is(error) || error.code === "WAYBILL_DATABASE_UNAVAILABLE") throw error;
      results.push({ id, ok: false, action: undefined, message: error.message });
    }
  }
  return results;
}

/** Prints the results; the exit code tells whether all, some or none were done. */
export function reportActs(output: Output, results: readonly ActResult[]): ExitCode {
  const failed = results.filter(({ ok }) => !ok);
  if (output.json) {
    output.object({ done: results.length - failed.length, failed: failed.length, results });
  } else {
    for (const { id, action } of results) if (action !== undefined) output.line(`${id} ${action}`);
    for (const { message } of failed) output.warn(message ?? "");
  }
  if (failed.length === 0) return exitCodes.ok;
  return failed.length === results.length ? exitCodes.failure : exitCodes.partial;
}
