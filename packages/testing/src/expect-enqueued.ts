import { AssertionError } from "node:assert";
import { inspect, isDeepStrictEqual } from "node:util";
import type { InputOf } from "@waybill/core";
import {
  type Definition,
  type EnqueuedJob,
  enqueuedJobs,
  type EnqueuedJobsOptions,
} from "./enqueued-jobs.ts";

/** Part of a payload: keys that are left out may hold anything. */
export type PayloadPart<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: PayloadPart<T[K]> | undefined }
    : T;

/** Options of {@link expectEnqueued}. */
export interface ExpectEnqueuedOptions<Tx, D extends Definition> extends EnqueuedJobsOptions<Tx> {
  /** What the payload must hold; objects may hold more, arrays must be equal. */
  readonly payload?: PayloadPart<InputOf<D["payload"]>> | undefined;
  /** How many must match. @default 1 or more */
  readonly times?: number | undefined;
}

/** Most jobs that a failure lists. */
const listedMax = 20;

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** True where `value` holds all that `part` asks for. */
export function matchesPart(value: unknown, part: unknown): boolean {
  if (!isRecord(part) || !isRecord(value)) return isDeepStrictEqual(value, part);
  return Object.entries(part).every(
    ([key, wanted]) =>
      wanted === undefined || (Object.hasOwn(value, key) && matchesPart(value[key], wanted)),
  );
}

const show = (value: unknown): string =>
  inspect(value, { depth: 6, breakLength: Infinity, maxStringLength: 200, maxArrayLength: 20 });

function describe(job: EnqueuedJob): string {
  const when = job.runAt === undefined ? "" : ` runAt ${job.runAt.toISOString()}`;
  const where = job.kind === "job" ? `queue ${job.queue}` : job.kind;
  return `  - ${job.name} (${where})${when} ${show(job.payload)}`;
}

function listOf(all: readonly EnqueuedJob[]): string {
  if (all.length === 0) return "Nothing was enqueued.";
  const lines = all.slice(0, listedMax).map(describe);
  if (all.length > listedMax) lines.push(`  … and ${all.length - listedMax} more`);
  return `Enqueued were:\n${lines.join("\n")}`;
}

const often = (count: number | undefined): string =>
  count === undefined ? "at least once" : count === 1 ? "once" : `${count} times`;

/**
 * Asserts that a job was enqueued, or an event published, on this transaction.
 *
 * @returns those that match, oldest first
 * @throws AssertionError that lists what was enqueued instead
 *
 * @example
 * await expectEnqueued(tx, sendWelcome, { database, payload: { to: "ada@example.com" } });
 */
export async function expectEnqueued<Tx, D extends Definition>(
  tx: Tx,
  job: D,
  options: ExpectEnqueuedOptions<Tx, D>,
): Promise<readonly EnqueuedJob<InputOf<D["payload"]>>[]> {
  const { database, schema, scope, payload, times, encryption } = options;
  const all = await enqueuedJobs(tx, { database, schema, scope, encryption });
  const found = all.filter(
    (each) =>
      each.name === job.name &&
      each.kind !== "route" &&
      (payload === undefined || matchesPart(each.payload, payload)),
  );
  if (times === undefined ? found.length > 0 : found.length === times) {
    return found;
  }
  const wanted = payload === undefined ? "" : ` with ${show(payload)}`;
  throw new AssertionError({
    message: `Expected "${job.name}"${wanted} to be enqueued ${often(times)}, found ${found.length}.\n${listOf(all)}`,
    actual: all.map(({ name, payload: given }) => ({ name, payload: given })),
    expected: { name: job.name, payload, times: times ?? "1 or more" },
    operator: "expectEnqueued",
    stackStartFn: expectEnqueued,
  });
}

/**
 * Asserts that no such job was enqueued on this transaction.
 *
 * @throws AssertionError that lists what was enqueued
 */
export async function expectNotEnqueued<Tx, D extends Definition>(
  tx: Tx,
  job: D,
  options: Omit<ExpectEnqueuedOptions<Tx, D>, "times">,
): Promise<void> {
  await expectEnqueued(tx, job, { ...options, times: 0 });
}
