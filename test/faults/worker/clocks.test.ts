import { expect, test } from "vitest";
import { eventually, type TestProcess } from "../../support/index.ts";
import {
  startPostgresWithClock,
  startTimedRelay,
  startTimedWorker,
  WrongClock,
} from "../../worker/support/clocks.ts";
import { type App, startApp } from "../../worker/support/start-app.ts";

const hourMs = 3_600_000;
const jumpMs = 300_000;
/** Of the delays and retries here. */
const delayMs = 3_000;
const leaseMs = 9_000;

/** Records each wait by the database's clock: when it began, and when it was to end. */
async function recordWaits({ database }: App): Promise<void> {
  await database.pool.query(`
    create table wait (id uuid not null, fire_at timestamptz not null, began_at timestamptz not null);
    create function record_wait() returns trigger language plpgsql as $$
    begin
      if new.reason in ('delay', 'retry') then
        insert into public.wait values (new.id, new.fire_at, clock_timestamp());
      end if;
      return new;
    end $$;
    create trigger record_wait after insert on waybill.timer
    for each row execute function record_wait();
  `);
}

/** Enqueues jobs that run at once, after a delay, at a time of the database's clock, and after a failure. */
async function enqueueLot(app: App): Promise<readonly string[]> {
  const rows = await app.database.rows<{ id: string }>(
    `with job as (
       select jsonb_build_object('queue', 'work', 'payload', '{}'::jsonb) || kind.job as job
       from generate_series(1, 5)
       cross join (
         values
           (jsonb_build_object('type', 'effect', 'expires_at', clock_timestamp() + interval '30 minutes')),
           (jsonb_build_object('type', 'effect', 'delay_ms', $1::integer)),
           (jsonb_build_object('type', 'effect', 'run_at', clock_timestamp() + $1::integer * interval '1 ms')),
           (jsonb_build_object('type', 'flaky'))
       ) as kind (job)
     )
     select e.id from waybill.enqueue((select jsonb_agg(job) from job)) as e`,
    [delayMs],
  );
  return rows.map(({ id }) => id);
}

/** All have succeeded, with one effect each. */
async function expectDone(app: App, ids: readonly string[]): Promise<void> {
  await eventually(
    async () =>
      expect(
        await app.database.rows(
          `select j.id, i.type, i.state, i.attempt, i.crashes, i.dispatch, i.owner, t.reason, t.fire_at
           from unnest($1::uuid[]) as j (id)
           left join waybill.inbox as i on i.id = j.id
           left join waybill.timer as t on t.id = j.id
           where i.state is distinct from 'succeeded'`,
          [ids],
        ),
      ).toEqual([]),
    { deadlineMs: 60_000 },
  );
  expect(
    await app.database.rows(
      "select j.id from unnest($1::uuid[]) as j (id) where (select count(*) from effect where job_id = j.id) <> 1",
      [ids],
    ),
  ).toEqual([]);
}

/** Waits that were set too short, and effects before their time, both by more than a second. */
async function early(app: App): Promise<readonly unknown[]> {
  return await app.database.rows(
    `select w.id, w.began_at, w.fire_at, e.at
     from wait as w left join effect as e on e.job_id = w.id
     where w.fire_at < w.began_at + ($1 - 1000) * interval '1 millisecond'
       or e.at < w.fire_at - interval '1 second'`,
    [delayMs],
  );
}

/** How far the clock of a process was off that printed this instant just now, in whole hours. */
const hoursOff = (instant: number): number => Math.round((instant - Date.now()) / hourMs);

test.each([
  ["an hour fast", 1, "America/New_York"],
  ["an hour slow", -1, "Australia/Lord_Howe"],
])(
  "I-1: a relay and a worker whose clocks are %s keep to the database's clock, and lose nothing",
  async (_how, hours, zone) => {
    using clock = WrongClock.ofProcesses();
    clock.jumpTo(hours * hourMs);
    await using app = await startApp();
    await recordWaits(app);
    await using relay = await startTimedRelay(app, { clock, zone });
    await using worker = await startTimedWorker(app, { clock, zone }, leaseMs);

    const ids = await enqueueLot(app);

    await expectDone(app, ids);
    expect(await early(app)).toEqual([]);
    expect(await app.database.rows("select from wait")).toHaveLength((ids.length * 3) / 4);
    const run = await worker.waitForLine("run effect");
    expect(hoursOff(Number(run.split(" ").at(-1)))).toBe(hours);
    const log = await relay.waitForLine('"time":');
    expect(hoursOff((JSON.parse(log) as { readonly time: number }).time)).toBe(hours);
  },
);

test("I-1: a clock that jumps by hours costs a worker no lease, and hurries or delays no job", async () => {
  using clock = WrongClock.ofProcesses();
  await using app = await startApp();
  await recordWaits(app);
  await using _relay = await startTimedRelay(app, { clock });
  await using worker = await startTimedWorker(app, { clock }, leaseMs);
  const long = await app.enqueue("long", {});
  await worker.waitForLine(`run long ${long}`);
  // Would take the job over.
  await using bystander = await startTimedWorker(app, {}, leaseMs);
  const before = await app.inbox(long);
  const ids: string[] = [];

  for (const hours of [1, -1, 0]) {
    clock.jumpTo(hours * hourMs);
    ids.push(...(await enqueueLot(app)));
    for (let renewals = 0; renewals < 2; renewals += 1) await nextHeartbeat(app, before?.owner);
  }
  await expectDone(app, ids);

  expect(await app.inbox(long)).toEqual(before);
  worker.writeLine("finish");
  await expectDone(app, [long]);
  expect(await app.inbox(long)).toMatchObject({ attempt: 1, crashes: 0, token: before?.token });
  expect(bystander.lines.filter((line) => line.includes("run long"))).toEqual([]);
  expect(await early(app)).toEqual([]);
});

/** Waits until the worker's lease has been renewed. */
async function nextHeartbeat({ database }: App, worker: string | null | undefined): Promise<void> {
  const heartbeat = async (): Promise<unknown> => {
    const [row] = await database.rows<{ heartbeat_at: Date }>(
      "select heartbeat_at from waybill.worker where id = $1 and lease_until > clock_timestamp()",
      [worker],
    );
    return row?.heartbeat_at.getTime();
  };
  const last = await heartbeat();
  await eventually(async () => {
    const now = await heartbeat();
    return now !== undefined && now !== last;
  });
}

test("I-3: a database's clock that jumps five minutes forward and back doubles no effect, and keeps no job waiting longer", async () => {
  using clock = WrongClock.ofPostgres();
  await using server = await startPostgresWithClock(clock);
  await using app = await startApp({ serverUrl: server.url });
  await using _relay = await startTimedRelay(app);
  await using first = await startTimedWorker(app, {}, leaseMs);
  await using second = await startTimedWorker(app, {}, leaseMs);
  const runs = ({ lines }: TestProcess, id: string): boolean =>
    lines.some((line) => line.startsWith(`run long ${id}`));
  const startLong = async (): Promise<string> => {
    const id = await app.enqueue("long", {});
    await eventually(() => runs(first, id) || runs(second, id));
    return id;
  };

  const interrupted = [await startLong(), await startLong()];
  clock.jumpTo(jumpMs);
  expect(await minutesAhead(app)).toBeCloseTo(5, 0);
  // The leases are over, and each worker goes on with another one.
  await eventually(async () =>
    expect(
      await app.database.rows("select from waybill.worker where lease_until > clock_timestamp()"),
    ).toHaveLength(2),
  );
  await expectDone(app, await enqueueLot(app));

  const running = await startLong();
  const waiting = await enqueueLot(app);
  const [victim, survivor] = runs(first, running) ? [first, second] : [second, first];
  clock.jumpTo(0);
  // Its lease seems to last five minutes yet, which keeps nobody from its jobs.
  victim.kill("SIGKILL");
  await victim.exited;
  expect(await minutesAhead(app)).toBeCloseTo(0, 0);
  await eventually(() => runs(survivor, running));
  await expectDone(app, await enqueueLot(app));
  survivor.writeLine("finish");
  await expectDone(app, [running]);

  // What was to wait for a time of the fast clock waits for it: a delay, or the end of a lease.
  const longestMs = jumpMs + leaseMs + 2_000;
  expect(
    await app.database.rows(
      "select from waybill.timer where fire_at > clock_timestamp() + $1 * interval '1 ms'",
      [longestMs],
    ),
  ).toEqual([]);
  clock.jumpTo(longestMs);
  await expectDone(app, [...waiting, ...interrupted]);
}, 180_000);

/** How far the database's clock is ahead of this process's, in minutes. */
async function minutesAhead({ database }: App): Promise<number> {
  const [row] = await database.rows<{ now: Date }>("select clock_timestamp() as now");
  return ((row?.now.getTime() ?? 0) - Date.now()) / 60_000;
}
