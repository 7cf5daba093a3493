/** What limits and orders promise, while relays and workers are killed. */

import { expect, test } from "vitest";
import { eventually } from "../../support/index.ts";
import { randomFrom, seedOf } from "../../support/random.ts";
import { type App, startApp } from "../../worker/support/start-app.ts";
import { startKillable } from "../../flow/support/killable.ts";
import { createSpans, type Spans } from "../../flow/support/spans.ts";

const jobs = 300;

/** Two relays and three workers, of which one is killed whenever some more jobs are done. */
async function killAll(app: App, spans: Spans, kills: number): Promise<void> {
  const random = randomFrom(seedOf("governed queues under kills"));
  const killOne = await startKillable(app, spans, random);
  for (let killed = 0; killed < kills; killed += 1) {
    const due = Math.floor((killed * jobs) / (kills + 1));
    await eventually(() => spans.succeeded().then((done) => done >= due), { deadlineMs: 90_000 });
    await killOne();
  }
  await eventually(() => spans.succeeded().then((done) => done === jobs), { deadlineMs: 120_000 });
}

// Starts a dozen processes.
test(
  "B4, D1: with relays and workers killed, no key exceeds its limit, each ordering key runs one at a time in commit order, and no slot is left",
  { timeout: 300_000 },
  async () => {
    await using app = await startApp();
    const spans = await createSpans(app);
    await app.database.rows(
      `insert into waybill.queue (name, overrides) values ('work', '{"keys": {"concurrency": 2}, "order": {}}')`,
    );
    await app.database.rows("select count(*) from waybill.enqueue($1::jsonb)", [
      JSON.stringify(
        Array.from({ length: jobs }, (_, n) => ({
          type: "span",
          queue: "work",
          payload: { ms: 15 },
          ordering_key: `o${n % 15}`,
          concurrency_key: `k${n % 5}`,
        })),
      ),
    ]);

    await killAll(app, spans, 10);

    const [found] = await app.database.rows(
      `with run as (
         select s.n, s.job_id, s.started, s.ended, o.seq, o.ordering_key,
           o.headers ->> 'waybill-concurrency-key' as key
         from span as s
         join waybill.outbox as o on o.id = s.job_id and o.dispatch = 1 and o.kind = 'job'
       )
       select
         (
           select count(*)::integer
           from run as a
           join run as b on a.ordering_key = b.ordering_key and a.n < b.n and b.started < a.ended
         ) as overlaps,
         (
           select count(*)::integer
           from run as a
           join run as b on a.ordering_key = b.ordering_key and a.seq < b.seq and b.started < a.started
             and not exists (select from run as c where c.job_id = a.job_id and c.started <= b.started)
         ) as inversions,
         (
           select max((
             select count(*) from run as b
             where b.key = a.key and b.started <= a.started and coalesce(b.ended, 'infinity') > a.started
           ))::integer
           from run as a
         ) as most,
         (select count(*)::integer from run where ended is null) as unended`,
    );
    expect(found).toMatchObject({ overlaps: 0, inversions: 0, unended: 0 });
    expect(found?.["most"]).toBeLessThanOrEqual(2);
    await eventually(async () => {
      const [left] = await app.database.rows(
        "select (select count(*) from waybill.slot) + (select count(*) from waybill.backlog) as rows",
      );
      expect(left).toEqual({ rows: "0" });
    });
  },
);
