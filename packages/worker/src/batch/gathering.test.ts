import { silentLogger } from "@waybill/core";
import { expect, test, vi } from "vitest";
import type { BatchContext, BatchMember } from "./batched-job.ts";
import { Gathering } from "./gathering.ts";

/** A gathering whose slots are free or not, and the batches that it ran. */
function gather(options: { maxJobs?: number; maxWaitMs?: number } = {}): {
  readonly gathering: Gathering<unknown>;
  readonly batches: (readonly string[])[];
  readonly slots: { free: boolean };
} {
  const batches: (readonly string[])[] = [];
  const slots = { free: true };
  const gathering = new Gathering<unknown>({
    maxJobs: options.maxJobs ?? 100,
    maxWaitMs: options.maxWaitMs ?? 60_000,
    mayGrow: () => slots.free,
    handler: async (jobs) => void batches.push(jobs.map(({ id }) => id)),
  });
  return { gathering, batches, slots };
}

/** An attempt; `abort` stops it. */
function memberOf(
  id: string,
  isSuspect = false,
): BatchMember<unknown> & { readonly abort: (reason: unknown) => void } {
  const controller = new AbortController();
  const abort = (reason: unknown): void => controller.abort(reason);
  return {
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
    isSuspect,
    stop: abort,
    onStart: () => undefined,
    abort,
  };
}

test("a batch starts as soon as it is full", async () => {
  const { gathering, batches } = gather({ maxJobs: 2 });

  const ended = ["a", "b", "c"].map((id) => gathering.reserve().join(memberOf(id)).ended);
  await Promise.all(ended.slice(0, 2));

  expect(batches).toEqual([["a", "b"]]);
});

test("a batch starts when its first job has waited long enough", async () => {
  const { gathering, batches } = gather({ maxWaitMs: 5 });

  await Promise.all(["a", "b"].map((id) => gathering.reserve().join(memberOf(id)).ended));

  expect(batches).toEqual([["a", "b"]]);
});

test("a batch that nobody can join waits for those that are on their way, and for nobody else", async () => {
  const { gathering, batches, slots } = gather();
  const late = gathering.reserve();
  const refused = gathering.reserve();
  const first = gathering.reserve().join(memberOf("a"));
  slots.free = false;

  gathering.look();
  expect(batches).toEqual([]);
  const second = late.join(memberOf("b"));
  gathering.look();
  expect(batches).toEqual([]);
  refused.leave();
  await Promise.all([first.ended, second.ended]);

  expect(batches).toEqual([["a", "b"]]);
});

test("a job that is stopped while it waits leaves, and its batch starts without it", async () => {
  const { gathering, batches, slots } = gather();
  const stopped = memberOf("a");
  const gone = gathering.reserve().join(stopped);
  const stays = gathering.reserve().join(memberOf("b"));

  stopped.abort(new Error("cancelled"));
  await expect(gone.ended).rejects.toThrow("cancelled");
  slots.free = false;
  gathering.look();
  await stays.ended;

  expect(batches).toEqual([["b"]]);
});

test("a job that may kill its worker is alone in its batch", async () => {
  const { gathering, batches } = gather({ maxWaitMs: 20 });

  const ended = [memberOf("a"), memberOf("b", true), memberOf("c")].map(
    (member) => gathering.reserve().join(member).ended,
  );
  await Promise.all(ended);

  expect(batches).toEqual([["b"], ["a", "c"]]);
});

test("after the stop no batch starts, and whoever waits or comes is stopped", async () => {
  vi.useFakeTimers();
  using _timers = { [Symbol.dispose]: () => vi.useRealTimers() };
  const { gathering, batches } = gather({ maxWaitMs: 10 });
  const waits = gathering.reserve().join(memberOf("a"));
  const comes = gathering.reserve();

  gathering.stop((id) => new Error(`stop ${id}`));
  const came = comes.join(memberOf("b"));

  await expect(waits.ended).rejects.toThrow("stop a");
  await expect(came.ended).rejects.toThrow("stop b");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(batches).toEqual([]);
});
