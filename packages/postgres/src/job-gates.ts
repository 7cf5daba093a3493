/** What can hold a job that waits in its queue: pauses, taps, breakers, order, limits, rates. */

import { bucketOf, keyLimitsOf, type RateLimit } from "@waybill/core";
import type { BreakerFacts, HeadFacts, JobFacts } from "./job-facts.ts";
import type { QueueStop } from "./queue-report.ts";
import { rateWords } from "./queue-words.ts";

/** What a job has to pass. */
export type GateName =
  | "committed"
  | "relayed"
  | "delay"
  | "retry"
  | "parked"
  | "lost"
  | "queue_paused"
  | "type_paused"
  | "key_paused"
  | "queue_closed"
  | "type_closed"
  | "key_closed"
  | "breaker"
  | "order"
  | "queue_limit"
  | "type_limit"
  | "key_limit"
  | "rate"
  | "workers"
  | "turn"
  | "slots"
  | "delivery"
  | "running"
  | "ended";

/** One of the gates. */
export interface JobGate {
  readonly gate: GateName;
  /** True where the job cannot pass it now. */
  readonly holds: boolean;
  /** What is known of it, in words. */
  readonly detail: string;
}

/** Rows that explain_job.sql counts, at most. */
const rowsMax = 10_000;

/** A number that was counted so far, in words. */
export const counted = (n: number): string => (n >= rowsMax ? `${rowsMax} or more` : String(n));
/** An instant in words. */
export const at = (instant: Date | null): string => instant?.toISOString() ?? "an unknown time";
/** A reason, after what it is the reason of. */
export const because = (reason: string | null): string => (reason === null ? "" : `: ${reason}`);
/** A gate that does not hold. */
export const open = (gate: GateName, detail: string): JobGate => ({ gate, holds: false, detail });

/** Pause and tap of a queue, a type or a key. */
export function stopGates(
  kind: "queue" | "type" | "key",
  name: string,
  stop: QueueStop,
  { now }: JobFacts,
): JobGate[] {
  const { pausedAt, pausedBy, pauseReason, closedUntil, closedReason } = stop;
  const paused: JobGate =
    pausedAt === null
      ? open(`${kind}_paused`, `${kind} ${name} is not paused`)
      : {
          gate: `${kind}_paused`,
          holds: true,
          detail: `${kind} ${name} is paused since ${at(pausedAt)} by ${pausedBy ?? "somebody"}${because(pauseReason)}`,
        };
  if (closedUntil === null || closedUntil <= now) return [paused];
  const detail = `${kind} ${name} is closed until ${at(closedUntil)}${because(closedReason)}`;
  return [paused, { gate: `${kind}_closed`, holds: true, detail }];
}

/** The breaker of a dependency. */
export function breakerGate(breaker: BreakerFacts): JobGate {
  const { name, state, manual, reason, probeAt } = breaker;
  if (state === "closed") return open("breaker", `breaker ${name} is closed`);
  const until =
    state === "half_open"
      ? "half open: one job at a time goes as a probe"
      : manual
        ? "open until an operator closes it"
        : `open until ${at(probeAt)}`;
  const detail = `breaker ${name} is ${until}${because(reason)}`;
  return { gate: "breaker", holds: true, detail };
}

function headWords(head: HeadFacts): string {
  if (!head.dispatched) return "waits for its turn itself";
  if (head.state === "running") {
    return `runs on ${head.worker ?? "an unknown worker"} since ${at(head.startedAt)}`;
  }
  if (!head.waiting) return "is dispatched and has not started";
  return head.retryAt === null
    ? "is about to be tried again"
    : `waits for its retry until ${at(head.retryAt)}${because(head.failure)}`;
}

/** The place among the jobs of its ordering key. */
export function orderGates({ job, head, governed }: JobFacts, isWaiting: boolean): JobGate[] {
  if (job.orderingKey === null || (head === null && !governed)) return [];
  const key = `ordering key ${job.orderingKey}`;
  if (head === null) return [open("order", `it is the first of ${key}`)];
  const detail = `behind job ${head.id} of ${key}, which ${headWords(head)}`;
  return [{ gate: "order", holds: isWaiting, detail }];
}

/** Limits of queue, type and key. */
export function limitGates(facts: JobFacts, isWaiting: boolean): JobGate[] {
  const { settings, job, key, tier, used, governed, workers } = facts;
  const limit = (gate: GateName, what: string, inUse: number, max: number | undefined): JobGate[] =>
    max === undefined
      ? []
      : [{ gate, holds: isWaiting && inUse >= max, detail: `${what}: ${inUse} of ${max} in use` }];
  const shares = workers.map(({ name, share }) => `${name} ${share ?? "none yet"}`).join(", ");
  return [
    ...(governed || settings.concurrency === undefined
      ? limit("queue_limit", `queue ${job.queue}`, used.queue, settings.concurrency)
      : [
          open(
            "queue_limit",
            `queue ${job.queue}: ${settings.concurrency}, shared out to workers: ${shares || "none"}`,
          ),
        ]),
    ...limit("type_limit", `type ${job.type}`, used.type, settings.types?.[job.type]?.concurrency),
    ...limit("key_limit", `key ${key}`, used.key, keyLimitsOf(settings, key, tier).concurrency),
  ];
}

/** The rates of queue, type and key; `isNext` where nothing else holds it in the backlog. */
export function rateGates(facts: JobFacts, isNext: boolean): JobGate[] {
  const { settings, job, key, tier, backlog } = facts;
  const rate = (what: string, limit: RateLimit | undefined): JobGate[] => {
    if (limit === undefined) return [];
    const waitMs = Math.ceil(((backlog?.ahead ?? 0) + 1) / bucketOf(limit).perMs);
    const estimate = isNext
      ? `; it waits for a token, for some ${waitMs} ms if those of its lane alone go before it`
      : "";
    const detail = `${what}: rate ${rateWords(limit)}${estimate}`;
    return [{ gate: "rate", holds: isNext, detail }];
  };
  return [
    ...rate(`queue ${job.queue}`, settings.rate),
    ...rate(`type ${job.type}`, settings.types?.[job.type]?.rate),
    ...rate(`key ${key}`, keyLimitsOf(settings, key, tier).rate),
  ];
}
