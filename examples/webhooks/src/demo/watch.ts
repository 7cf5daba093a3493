import { setTimeout as sleep } from "node:timers/promises";
import type { Jobs } from "@waybill/postgres";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import type { Sender } from "./sender.ts";

/** How long nothing may change while jobs have no end. */
const standstillMs = 60_000;

const number = (value: number): string => value.toLocaleString("en-US");

/** Shows the progress until everything is sent and every job has ended. */
export async function watchUntilEnd<Tx>(
  jobs: Jobs<Tx>,
  sender: Sender,
  screen: Screen,
  signal: AbortSignal,
): Promise<void> {
  let last = "";
  let changedAt = performance.now();
  for (;;) {
    // Asked before counting: what is sent by now is in the count.
    const { sent, total } = sender;
    const { queued, running, retry_waiting: waiting, ...ended } = (await jobs.counts()).total;
    const open = queued + running + waiting;
    const done = ended.succeeded + ended.failed + ended.cancelled;

    const known = open + done;
    const expected = sent === 0 ? total * 2 : (known * total) / sent;
    const state =
      `${number(sent)}/${number(total)} sent · ${number(done)}/${number(known)} jobs ended · ` +
      `${running} running · ${waiting} waiting · ${ended.failed} dead`;
    screen.progress(state, done / expected);
    if (sent === total && open === 0) return screen.endProgress();

    if (state !== last) [last, changedAt] = [state, performance.now()];
    if (performance.now() - changedAt > standstillMs) {
      throw new Error(
        `Nothing has moved for ${standstillMs / 1_000} s, and there are jobs without an end: ` +
          `${queued} queued, ${running} running, ${waiting} waiting for a retry.`,
      );
    }
    await sleep(250, undefined, { signal });
  }
}
