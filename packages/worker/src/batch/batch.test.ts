import { silentLogger } from "@waybill/core";
import { expect, test } from "vitest";
import { Batch } from "./batch.ts";
import { BatchEntry } from "./batch-entry.ts";
import type { BatchContext, BatchHandler } from "./batched-job.ts";

interface Member {
  readonly entry: BatchEntry<unknown>;
  readonly abort: (reason: unknown) => void;
}

function memberOf(id: string): Member {
  const controller = new AbortController();
  const abort = (reason: unknown): void => controller.abort(reason);
  const entry = new BatchEntry<unknown>({
    context: { id, name: "test", signal: controller.signal } as BatchContext<unknown>,
    current: {
      jobId: id,
      jobName: "test",
      queue: "work",
      attempt: 1,
      logger: silentLogger,
      fail: abort,
      ended: () => false,
    },
    isSuspect: false,
    stop: abort,
    onStart: () => undefined,
  });
  entry.ended.catch(() => undefined);
  return { entry, abort };
}

/** Starts a batch of a, b and c. */
function start(handler: BatchHandler<unknown>): {
  readonly members: readonly [Member, Member, Member];
  readonly running: Promise<void>;
  readonly outcomes: () => Promise<readonly unknown[]>;
} {
  const members = [memberOf("a"), memberOf("b"), memberOf("c")] as const;
  const running = new Batch(
    members.map(({ entry }) => entry),
    handler,
  ).run();
  const outcomes = async (): Promise<readonly unknown[]> => {
    const ended = await Promise.allSettled(members.map(({ entry }) => entry.ended));
    return ended.map((each) =>
      each.status === "fulfilled" ? each.value : (each.reason as Error).message,
    );
  };
  return { members, running, outcomes };
}

test("a handler that states nothing and returns has done all jobs", async () => {
  expect(await start(async () => undefined).outcomes()).toEqual([undefined, undefined, undefined]);
});

test("what was stated counts, and what the handler throws fails the others", async () => {
  const { outcomes } = start(async ([a, b]) => {
    a?.succeed(1);
    b?.fail(new Error("no"));
    b?.succeed(2);
    throw new Error("broken");
  });

  expect(await outcomes()).toEqual([1, "no", "broken"]);
});

test("a handler that returns outcomes instead of stating them fails what it did not state", async () => {
  const { outcomes } = start(async ([a]) => {
    a?.succeed(1);
    return new Map([["b", new Error("no")]]);
  });

  expect(await outcomes()).toEqual([
    1,
    expect.stringContaining("returned a value"),
    expect.stringContaining("returned a value"),
  ]);
});

test("a job that was told to stop ends with its statement, before the others", async () => {
  const goOn = Promise.withResolvers<void>();
  const { members, running } = start(async ([a]) => {
    a?.fail(new Error("stated before the stop"));
    await goOn.promise;
  });
  const [{ entry, abort }, other] = members;

  abort(new Error("stop"));
  await expect(entry.ended).rejects.toThrow("stated before the stop");
  expect(await Promise.race([other.entry.ended, Promise.resolve("runs")])).toBe("runs");

  goOn.resolve();
  await running;
});

test("the signal aborts when every job without a statement was told to stop", async () => {
  const stated = Promise.withResolvers<void>();
  let signal: AbortSignal | undefined;
  const { members, running } = start(async ([a], given) => {
    signal = given;
    await stated.promise;
    a?.succeed(1);
  });

  members[1].abort(new Error("first"));
  members[2].abort(new Error("second"));
  expect(signal?.aborted).toBe(false);
  stated.resolve();
  await running;

  expect(signal?.reason).toEqual(new Error("first"));
});

test("a job that the handler does not let go is left behind, and the last one stands for the handler", async () => {
  const goOn = Promise.withResolvers<void>();
  const { members, running } = start(async () => await goOn.promise);

  for (const { entry } of members) entry.leaveBehind(new Error("left behind"));
  await expect(members[0].entry.ended).rejects.toThrow("left behind");
  await expect(members[1].entry.ended).rejects.toThrow("left behind");
  expect(await Promise.race([members[2].entry.ended, Promise.resolve("runs")])).toBe("runs");

  goOn.resolve();
  await running;
  await members[2].entry.ended;
});
