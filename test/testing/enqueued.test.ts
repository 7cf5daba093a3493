import { expect, test } from "vitest";
import { enqueuedJobs, expectEnqueued, expectNotEnqueued } from "@waybill/testing";
import { customerCreated, sendWelcome, startApplication } from "./support.ts";

test("what a transaction enqueued is listed with its payload and options", async () => {
  await using app = await startApplication();
  const { database, outbox } = app;
  const runAt = new Date(Date.now() + 3_600_000);

  const listed = await app.inTest(async (tx) => {
    await outbox.enqueue(
      tx,
      sendWelcome,
      { to: "ada@example.com" },
      { priority: 5, headers: { tenant: "a" } },
    );
    await outbox.enqueue(tx, sendWelcome, { to: "bob@example.com" }, { runAt });
    await outbox.publish(tx, customerCreated, { id: 7 });
    return {
      welcome: await enqueuedJobs(tx, { database, job: sendWelcome }),
      events: await enqueuedJobs(tx, { database, job: customerCreated }),
      all: await enqueuedJobs(tx, { database }),
    };
  });

  const to: string[] = listed.welcome.map((job) => job.payload.to);
  expect(to.sort()).toEqual(["ada@example.com", "bob@example.com"]);
  expect(listed.welcome.find((job) => job.payload.to.startsWith("ada"))).toMatchObject({
    kind: "job",
    name: "email.welcome",
    queue: "emails",
    priority: 5,
    headers: { tenant: "a" },
    runAt: undefined,
  });
  expect(listed.welcome.find((job) => job.payload.to.startsWith("bob"))?.runAt).toEqual(runAt);
  expect(listed.events.map((event) => [event.kind, event.payload.id])).toEqual([["event", 7]]);
  expect(listed.all).toHaveLength(3);
});

test("jobs of other transactions are not this transaction's, savepoints are", async () => {
  await using app = await startApplication();
  const { database, outbox } = app;
  await database.transaction(async (tx) => {
    await outbox.enqueue(tx, sendWelcome, { to: "committed@example.com" });
    await outbox.enqueue(tx, sendWelcome, { to: "later@example.com" }, { delayMs: 60_000 });
  });

  const counts = await app.inTest(async (tx) => {
    await tx.query("savepoint inner_work");
    await outbox.enqueue(tx, sendWelcome, { to: "own@example.com" });
    await outbox.enqueue(tx, sendWelcome, { to: "own-later@example.com" }, { delayMs: 60_000 });
    await tx.query("release savepoint inner_work");
    const own = await enqueuedJobs(tx, { database, job: sendWelcome });
    const all = await enqueuedJobs(tx, { database, job: sendWelcome, scope: "all" });
    return { own: own.map((job) => job.payload.to).sort(), all: all.length };
  });

  expect(counts.own).toEqual(["own-later@example.com", "own@example.com"]);
  expect(counts.all).toBe(4);
});

test("an expectation that fails lists what was enqueued instead", async () => {
  await using app = await startApplication();
  const { database, outbox } = app;

  const message = await app.inTest(async (tx) => {
    await outbox.enqueue(tx, sendWelcome, { to: "bob@example.com" });
    await outbox.publish(tx, customerCreated, { id: 7 });
    return await expectEnqueued(tx, sendWelcome, {
      database,
      payload: { to: "ada@example.com" },
    }).then(
      () => "",
      (error: unknown) => (error as Error).message,
    );
  });

  expect(message).toMatch(
    /Expected "email.welcome" with \{ to: 'ada@example.com' \} to be enqueued at least once, found 0/,
  );
  expect(message).toContain("email.welcome (queue emails) { to: 'bob@example.com' }");
  expect(message).toContain("customer.created (event) { id: 7 }");
});

test("an expectation may name a part of the payload, a number of times, or nothing at all", async () => {
  await using app = await startApplication();
  const { database, outbox } = app;

  await app.inTest(async (tx) => {
    await expectNotEnqueued(tx, sendWelcome, { database });
    await outbox.enqueue(tx, sendWelcome, { to: "ada@example.com", at: "2030-01-01T00:00:00Z" });
    await outbox.enqueue(tx, sendWelcome, { to: "bob@example.com" });

    const [found] = await expectEnqueued(tx, sendWelcome, {
      database,
      payload: { to: "ada@example.com" },
      times: 1,
    });
    await expectEnqueued(tx, sendWelcome, { database, times: 2 });
    await expect(expectEnqueued(tx, sendWelcome, { database, times: 1 })).rejects.toThrow(
      /once, found 2/,
    );
    await expect(expectNotEnqueued(tx, sendWelcome, { database })).rejects.toThrow(
      /0 times, found 2/,
    );
    expect(found?.payload.at).toBe("2030-01-01T00:00:00Z");
  });
});
