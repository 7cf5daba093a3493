/** A broker that comes back with nothing of what it had: everything unfinished is dispatched again, by itself. */

import { expect, test } from "vitest";
import { auditorFailpoints } from "../../../packages/relay/src/internals.ts";
import { startPrivateRabbitmq } from "../../../scripts/services/index.ts";
import { eventually, startProcess } from "../../support/index.ts";
import { type Ledger, startLedger } from "./support.ts";

/** Some jobs have ended, some run, and most wait at the broker. */
async function midFlight(ledger: Ledger): Promise<readonly string[]> {
  await ledger.startWorker();
  const ids = await ledger.enqueue(300);
  await ledger.ready(280);
  await eventually(
    async () =>
      (await ledger.line.database.rows("select from waybill.relay where marker <> ''")).length > 0,
  );
  return ids;
}

test("C9: a virtual host that is deleted and made again gets every unfinished job back, and no ended one", async () => {
  await using ledger = await startLedger();
  const { vhost } = ledger.line;
  ledger.line.startRelay();
  const ids = await midFlight(ledger);

  await vhost.drop();
  ledger.openGate();
  await eventually(
    async () =>
      (await ledger.line.database.rows("select from waybill.inbox where state = 'succeeded'"))
        .length > 0,
  );
  await vhost.make();

  await ledger.endedOnce(ids);
  expect(await ledger.dispatchedAgain()).toBeGreaterThanOrEqual(280);
});

// Two starts of a broker take longer than all the rest.
test("C9: a broker whose data directory was wiped gets every unfinished job back within a minute", async () => {
  await using rabbitmq = await startPrivateRabbitmq();
  const { url, managementUrl } = rabbitmq;
  await using ledger = await startLedger({ vhost: { rabbitmqUrl: url, managementUrl } });
  ledger.line.startRelay();
  const ids = await midFlight(ledger);

  await rabbitmq.wipe();
  ledger.openGate();
  await rabbitmq.start();
  await ledger.line.vhost.make();

  await ledger.endedOnce(ids);
  expect(await ledger.dispatchedAgain()).toBeGreaterThanOrEqual(280);
}, 300_000);

test.each(auditorFailpoints)(
  "C9: a relay killed at %s leaves the rest to its successor",
  async (point) => {
    await using ledger = await startLedger();
    const { database, vhost } = ledger.line;
    const first = ledger.line.startRelay();
    const ids = await midFlight(ledger);
    await first.stop();
    await vhost.drop();
    await vhost.make();
    const settings = {
      databaseUrl: database.url,
      broker: { url: vhost.url, prefix: vhost.prefix },
      leaseMs: 500,
    };
    await using relay = await startProcess(
      new URL("../../support/relay-process.ts", import.meta.url),
      [JSON.stringify(settings), JSON.stringify({ point, count: 1, signal: "SIGKILL" })],
    );
    expect((await relay.exited).signal).toBe("SIGKILL");

    ledger.openGate();
    ledger.line.startRelay();

    await ledger.endedOnce(ids);
    await eventually(
      async () =>
        (await database.rows("select from waybill.audit where lost is not null")).length === 0,
    );
  },
);
