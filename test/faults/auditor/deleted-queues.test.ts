/** A queue that an operator deletes again and again while jobs run. */

import { expect, test } from "vitest";
import { eventually } from "../../support/index.ts";
import { startLedger } from "./support.ts";

const rounds = 10;
const each = 30;

test("C10, D6: every job of a queue that is deleted ten times under load runs, and has its effect once", async () => {
  await using ledger = await startLedger();
  const { database, vhost } = ledger.line;
  // So that a test need not wait for as long as a worker may keep a delivery.
  ledger.line.startRelay({}, { settleMs: 1_000 });
  ledger.openGate();
  await ledger.startWorker();
  const ids: string[] = [];

  for (let round = 0; round < rounds; round += 1) {
    ids.push(...(await ledger.enqueue(each)));
    // With some of them done and some on their way; the first time while relay and worker begin.
    await eventually(
      async () => {
        const [row] = await database.rows<{ ended: number }>(
          "select count(*)::integer as ended from waybill.inbox where state = 'succeeded'",
        );
        expect(row?.ended).toBeGreaterThanOrEqual(ids.length - 1.5 * each);
      },
      { deadlineMs: 60_000 },
    );
    await vhost.management
      .request("DELETE", `/api/queues/${vhost.name}/${vhost.prefix}.work`)
      // Deleted before, and not there again yet.
      .catch((error: unknown) => expect(String(error)).toMatch(/404/));
  }

  await ledger.endedOnce(ids);
});
