import { expect, test } from "vitest";
import { eventually } from "../../support/index.ts";
import type { App } from "../../worker/support/start-app.ts";
import { startStepApp, startStepWorker, wrongSteps } from "../../worker/support/step-workers.ts";

/** The living presence of a worker by its name. */
const bootIdOf = async (app: App, name: string): Promise<string | undefined> => {
  const [row] = await app.database.rows<{ id: string }>(
    "select id from waybill.worker where name = $1 and lease_until > now()",
    [name],
  );
  return row?.id;
};

test.concurrent.each([
  ["whose delivery it holds", "60000", 0],
  ["whose delivery was acked", "1000", 1],
])(
  "D2: a frozen worker loses a job %s: another goes on from its checkpoint, and nothing that the late one tries has an effect",
  async (_what, holdMs, leases) => {
    await using app = await startStepApp();
    await using _relay = await app.startRelayProcess();
    // Its first job is given to the only worker that there is.
    await using frozen = await startStepWorker(app, {
      NAME: "frozen",
      LEASE_MS: "3000",
      HOLD_MS: holdMs,
      WAIT_AT: "5",
    });
    const id = await app.enqueue("steps", { steps: 20 });
    await frozen.waitForLine("at step 5");
    await eventually(async () =>
      expect(
        await app.database.rows("select from waybill.timer where reason = 'lease'"),
      ).toHaveLength(leases),
    );
    const before = await bootIdOf(app, "frozen");
    // What the progress says is written apart from the steps.
    await eventually(async () =>
      expect(await app.database.rows("select done::integer from waybill.progress")).toEqual([
        { done: 5 },
      ]),
    );

    await using other = await startStepWorker(app, { NAME: "other" });
    frozen.kill("SIGSTOP");
    // The broker may give its copy to the frozen worker, too, until it misses that one's heartbeats.
    await other.waitForLine(`${id} from 5`, { deadlineMs: 60_000 });
    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
    frozen.writeLine("go");
    frozen.kill("SIGCONT");

    await frozen.waitForLine("late transaction: WAYBILL_JOB_LEASE_LOST");
    await frozen.waitForLine("late checkpoint: WAYBILL_JOB_LEASE_LOST");
    // It goes on as somebody else.
    const after = await eventually(() => bootIdOf(app, "frozen"));
    expect(after).not.toBe(before);
    other.kill("SIGTERM");
    await other.exited;
    const next = await app.enqueue("steps", { steps: 3 });
    await frozen.waitForLine(`${next} from 0`);
    await eventually(async () =>
      expect(await app.inbox(next)).toMatchObject({ state: "succeeded" }),
    );

    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 1 });
    expect(await wrongSteps(app, [id], 20)).toEqual([]);
    expect(
      await app.database.rows(
        "select step, worker from step_effect where job_id = $1 and (step < 5) <> (worker = 'frozen')",
        [id],
      ),
    ).toEqual([]);
    expect(
      await app.database.rows(
        "select result::json ->> 'by' as by, done::integer from waybill.result join waybill.progress using (id) where id = $1",
        [id],
      ),
    ).toEqual([{ by: "other", done: 20 }]);
    expect(
      await app.database.rows(
        "select (checkpoint::json ->> 'done')::integer as done from waybill.checkpoint where id = $1 order by number desc limit 1",
        [id],
      ),
    ).toEqual([{ done: 20 }]);
    await eventually(async () => {
      expect(await app.courier.depth("waybill.work")).toBe(0);
      expect(await app.database.rows("select from waybill.timer")).toEqual([]);
    });
  },
);
