/** A database that is set back to an earlier time: messages of jobs that it does not know are not run. */

import { createJobs, createInboxStore, migrate, pgDatabase } from "@waybill/postgres";
import { names } from "@waybill/rabbitmq";
import { expect, test } from "vitest";
import { createTestDatabase, eventually, type TestDatabase } from "../../support/index.ts";
import { addWorker } from "../../support/worker-row.ts";
import { type Ledger, startLedger } from "./support.ts";

const tables = ["flow", "outbox", "inbox", "timer", "relay", "audit", "subscription", "worker"];

/** What a restored dump is: the rows of that moment, in tables with other object ids. */
async function restore(from: TestDatabase, to: TestDatabase): Promise<void> {
  await migrate(to.pool);
  for (const table of tables) {
    const rows = await from.rows(`select to_jsonb(t) as row from waybill.${table} as t`);
    await to.rows(`delete from waybill.${table}`);
    await to.rows(
      `insert into waybill.${table} select * from jsonb_populate_recordset(null::waybill.${table}, $1::jsonb)`,
      [JSON.stringify(rows.map(({ row }) => row))],
    );
  }
}

/** Ids of jobs, by the state or the reason to wait that the database gives. */
async function idsWhere(database: TestDatabase, from: string): Promise<readonly string[]> {
  const rows = await database.rows<{ id: string }>(`select id from waybill.${from}`);
  return rows.map(({ id }) => id).toSorted();
}

test("E4: after a restore to an earlier time messages of vanished jobs are parked, all others run", async () => {
  await using ledger = await startLedger();
  await using restored = await createTestDatabase({ poolSize: 20 });
  const { line } = ledger;
  const first = line.startRelay();
  const known = await ledger.enqueue(10);
  await ledger.ready(10);
  await restore(line.database, restored);
  const vanished = await ledger.enqueue(10);
  await ledger.ready(20);
  await first.stop();
  await restored.rows("create table effect (queue text, id uuid)");

  line.startRelay({ databaseUrl: restored.url });
  ledger.openGate();
  await ledger.startWorker({
    database: pgDatabase(restored.pool),
    databaseUrl: restored.url,
  });

  await eventually(async () =>
    expect(await idsWhere(restored, "inbox where state = 'succeeded'")).toEqual(known.toSorted()),
  );
  await eventually(async () =>
    expect(
      await idsWhere(restored, "timer where reason = 'orphan' and fire_at = 'infinity'"),
    ).toEqual(vanished.toSorted()),
  );
  const effects = await restored.rows<{ id: string }>("select id from effect");
  expect(effects.map(({ id }) => id).toSorted()).toEqual(known.toSorted());

  const [wanted = ""] = vanished;
  await createJobs({ database: pgDatabase(restored.pool) }).release(wanted);
  await eventually(async () =>
    expect(await idsWhere(restored, `inbox where id = '${wanted}'`)).toEqual([wanted]),
  );
});

/** Publishes a message of the queue as an earlier life of this database would have. */
async function publishOrphan(ledger: Ledger, id: string): Promise<void> {
  const { database, vhost } = ledger.line;
  const [flow] = await database.rows<{ id: string }>("select id from waybill.flow");
  await vhost.management.request(
    "POST",
    `/api/exchanges/${vhost.name}/${names(vhost.prefix).jobsExchange}/publish`,
    {
      routing_key: "work",
      payload: '{"n":1}',
      payload_encoding: "string",
      properties: {
        message_id: id,
        type: "audited.job",
        headers: {
          "waybill-dispatch": 1,
          "waybill-enqueued-at": Date.now(),
          "waybill-origin": `${flow?.id ?? ""}:1:00000009`,
        },
      },
    },
  );
}

test("E4: orphans run where the worker says so, and are acknowledged where it drops them", async () => {
  const [dropped, run] = [
    "01900000-0000-7000-8000-000000000001",
    "01900000-0000-7000-8000-000000000002",
  ];
  await using dropping = await startLedger();
  dropping.openGate();
  await dropping.startWorker({ orphans: "drop" });
  await publishOrphan(dropping, dropped);
  await using running = await startLedger();
  running.openGate();
  await running.startWorker({ orphans: "run" });
  await publishOrphan(running, run);

  await running.endedOnce([run]);
  // What comes behind it shows that it was taken.
  dropping.line.startRelay();
  const after = await dropping.enqueue(1);
  await dropping.endedOnce(after);
  expect(await idsWhere(dropping.line.database, "timer")).toEqual([]);
});

test("a claim takes for orphans what the database has published in an earlier life and does not know, and nothing else", async () => {
  await using ledger = await startLedger();
  const { database } = ledger.line;
  const store = createInboxStore(database.pool);
  const owner = await addWorker(database, "w1", { queues: ["work"] });
  const [id = "", other = "", third = "", fourth = ""] = await ledger.enqueue(4);
  await database.rows("delete from waybill.outbox where id = any ($1)", [[other, third, fourth]]);
  const [origin] = await database.rows<{ here: string }>("select waybill.origin() as here");
  const here = origin?.here ?? "";
  const earlier = here.replace(/:[^:]*$/, ":00000000");
  const elsewhere = here.replace(/^[^:]*/, "11111111-1111-4111-8111-111111111111");
  const request = (job: string, from: string | null, enqueuedAt = new Date()): object => ({
    id: job,
    queue: "work",
    type: "t",
    dispatch: 1,
    death: 0,
    enqueuedAt,
    expiresAt: null,
    onTerminal: null,
    origin: from,
  });
  const claimed = async (...requests: object[]): Promise<readonly string[]> =>
    (await store.claim(owner, requests as Parameters<typeof store.claim>[1])).map((row) => row.id);

  expect(here).toMatch(/^[0-9a-f-]{36}:\d+:[0-9A-F]{8}$/);
  // Its row is there.
  expect(await claimed(request(id, earlier))).toEqual([id]);
  expect(await claimed(request(other, earlier))).toEqual([]);
  // From before the outbox's first row: it may have had one.
  expect(await claimed(request(third, earlier, new Date(0)))).toEqual([third]);
  expect(await claimed(request(other, elsewhere))).toEqual([other]);
  expect(await claimed(request(fourth, here))).toEqual([fourth]);
});
