import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { startFlow } from "./support/flow.ts";

test("jobs of a governed queue run once, in slots that are all given back", async () => {
  await using flow = await startFlow({ keys: { concurrency: 2 } });
  await flow.startWorker((job) => flow.note(job));
  flow.startRelay();

  const ids = await flow.enqueue(60, (n) => ({ concurrencyKey: `tenant${n % 6}` }));

  await flow.ended(ids);
  expect(flow.starts()).toHaveLength(60);
  expect(flow.mostAtOnce(({ key }) => key)).toBeLessThanOrEqual(2);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});

test("a failed job gives its slot back while it waits for its retry", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  await flow.startWorker((job) => {
    flow.note(job)[Symbol.dispose]();
    if (job.attempt === 1 && (job.payload as { n: number }).n === 0) throw new Error("once");
  });
  flow.startRelay();

  const ids = await flow.enqueue(5, () => ({ concurrencyKey: "one" }));

  await flow.ended(ids);
  expect(flow.starts()).toHaveLength(6);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});

test("jobs of an ordering key run one at a time in commit order, and the retry of the head comes first", async () => {
  await using flow = await startFlow({ order: {} });
  await flow.startWorker((job) => {
    using _ = flow.note(job);
    if (job.attempt === 1 && (job.payload as { n: number }).n % 4 === 0) throw new Error("once");
  });
  flow.startRelay();

  const ids = await flow.enqueue(40, (n) => ({ orderingKey: `key${n % 5}` }));

  await flow.ended(ids);
  for (const key of [0, 1, 2, 3, 4]) {
    const order = flow.starts().filter(({ n }) => n % 5 === key);
    expect(order.map(({ n }) => n)).toEqual(order.map(({ n }) => n).toSorted((a, b) => a - b));
  }
  expect(flow.mostAtOnce(({ n }) => String(n % 5))).toBe(1);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});

test("a message that comes to a governed queue without a slot goes through the backlog", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  await flow.startWorker((job) => flow.note(job));
  flow.startRelay();

  const id = await flow.app.send("flow.job", { n: 1 });

  await flow.ended([id]);
  expect(flow.starts()).toHaveLength(1);
  await eventually(async () => expect(await flow.leftovers()).toEqual({ slots: 0, backlog: 0 }));
});
