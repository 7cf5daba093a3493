import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { startApp } from "./support/start-app.ts";

test.each([
  ["after the claim", "effect", "worker.afterClaim", { crashes: 1 }],
  ["before the commit", "effect", "worker.beforeCommit", { crashes: 1 }],
  ["after the commit", "effect", "worker.afterCommit", { crashes: 0 }],
  ["before the ack", "effect", "worker.beforeAck", { crashes: 0 }],
  ["after the completion of a plain handler", "plain", "worker.afterCommit", { crashes: 0 }],
])(
  "D1: a worker that is killed %s runs the effect once",
  async (_when, type, failpoint, counted) => {
    await using app = await startApp();
    const victim = await app.startWorkerProcess({ FAILPOINT: failpoint });

    const id = await app.enqueue(type, {});
    await app.courier.round();
    await victim.waitForLine(`reached ${failpoint}`);
    victim.kill("SIGKILL");
    await victim.exited;
    await app.startWorkerProcess();

    await eventually(async () =>
      expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, ...counted }),
    );
    expect(await app.effects(id)).toBe(1);
    await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
  },
);

test("D1: a worker that is killed in its handler loses the job to another worker long before its lease is over", async () => {
  await using app = await startApp();
  const victim = await app.startWorkerProcess({ STUCK: "1", LEASE_MS: "600000" });
  const id = await app.enqueue("stuck", {});
  await app.courier.round();
  await victim.waitForLine(`run stuck ${id}`);
  const other = await app.startWorkerProcess();

  victim.kill("SIGKILL");

  await other.waitForLine(`run stuck ${id}`);
  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", crashes: 1, attempt: 1 }),
  );
  expect(await app.effects(id)).toBe(1);
});

test("F2: a worker that is killed again and again by one job dead-letters that job as crashed, and its neighbours lose nothing", async () => {
  await using app = await startApp();
  const ids: string[] = [];
  const poison = await app.send("poison", {});
  for (let n = 0; n < 30; n += 1) ids.push(await app.send("effect", {}));

  const isDone = async (): Promise<boolean> => {
    const rows = await app.database.rows(
      "select state, count(*)::int from waybill.inbox group by state order by state",
    );
    return (
      JSON.stringify(rows) === '[{"state":"failed","count":1},{"state":"succeeded","count":30}]'
    );
  };
  let deaths = 0;
  for (let isOver = false; !isOver && deaths < 10;) {
    // The one that meets the job dies, perhaps before it says that it has started.
    const worker = await app.startWorkerProcess().catch(() => undefined);
    await eventually(async () => worker?.hasExited !== false || (await isDone()));
    isOver = worker?.hasExited === false;
    if (!isOver) deaths += 1;
  }

  expect(await app.inbox(poison)).toMatchObject({ state: "failed", attempt: 1, crashes: 4 });
  expect(await app.database.rows("select failure_class from waybill.dead_letter")).toEqual([
    { failure_class: "crashed" },
  ]);
  expect(deaths).toBe(4);
  for (const id of ids) expect(await app.effects(id)).toBe(1);
  expect(
    await app.database.rows("select from waybill.inbox where type = 'effect' and attempt <> 1"),
  ).toEqual([]);
  expect(await app.courier.depth("waybill.work")).toBe(0);
}, 60_000);

test("D2: a worker that loses its job while frozen is fenced when it wakes: its job has gone on without it", async () => {
  await using app = await startApp();
  const frozen = await app.startWorkerProcess({ FAILPOINT: "", STUCK: "1", LEASE_MS: "1000" });
  const id = await app.enqueue("stuck", {});
  await app.courier.round();
  await frozen.waitForLine(`run stuck ${id}`);
  frozen.kill("SIGSTOP");
  const other = await app.startWorkerProcess();

  // Copies, as a repair would send them; the broker gives some of them to the frozen worker.
  for (const dispatch of [2, 3, 4, 5]) {
    await app.courier.dispatch({ id, type: "stuck", queue: "work", dispatch });
  }
  app.courier.start();
  await other.waitForLine(`run stuck ${id}`);
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  frozen.kill("SIGCONT");

  await eventually(async () => {
    const workers = await app.database.rows("select from waybill.worker where lease_until > now()");
    expect(workers).toHaveLength(2);
  });
  expect(await app.inbox(id)).toMatchObject({ state: "succeeded", crashes: 1 });
  expect(await app.effects(id)).toBe(1);
});
