/**
 * Why a job does not run yet: the gates between its commit and its end, in the order in which it passes
 * them, and the first that holds it. A pure function of what the database knows; the tokens of a rate are
 * in the relay's memory, so of those it gives the rate alone, and an estimate.
 */

import { isTerminal, type JobState } from "@waybill/core";
import type { JobFacts } from "./job-facts.ts";
import {
  at,
  because,
  breakerGate,
  counted,
  type JobGate,
  limitGates,
  open,
  orderGates,
  rateGates,
  stopGates,
} from "./job-gates.ts";

/** Where a job is, and what holds it. */
export interface JobExplanation {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly state: JobState;
  /** True where its queue is governed. */
  readonly governed: boolean;
  /** The first gate that holds it; null where none does. */
  readonly heldBy: JobGate | null;
  /** Those that matter for this job, in the order in which it passes them. */
  readonly gates: readonly JobGate[];
}

/** A relay that leads and has something to publish saves its place far more often, in milliseconds. */
const silentRelayMs = 10_000;

/** Where a job is between its commit and its end. */
type Stage = "timer" | "outbox" | "backlog" | "dispatched" | "running" | "ended";

function stageOf({ job, written, backlog }: JobFacts): Stage {
  if (isTerminal(job.state)) return "ended";
  if (job.state === "running") return "running";
  if (backlog !== null) return "backlog";
  if (job.waitingFor !== null) return "timer";
  return written !== null && !written.relayed ? "outbox" : "dispatched";
}

function relayGate({ relay, written, job, now }: JobFacts, stage: Stage): JobGate {
  if (stage === "timer" && !job.relayed) return open("relayed", "after the time that it waits for");
  if (stage !== "outbox") return open("relayed", "the relay has read it");
  const ahead = `${counted(written?.ahead ?? 0)} rows before it`;
  const last = relay.savedAt === null ? "" : `; a relay last read at ${at(relay.savedAt)}`;
  const isSilent =
    relay.savedAt !== null && now.getTime() - relay.savedAt.getTime() > silentRelayMs;
  // What holds the relay up is in its own memory; the database shows that something does.
  const blocked = isSilent
    ? `; nothing was published since ${at(relay.savedAt)}, so the broker is blocked or away: see waybill doctor`
    : "";
  return {
    gate: "relayed",
    holds: true,
    detail: relay.held
      ? `relay ${relay.holder ?? "without a name"} leads and has not read it yet, ${ahead}${blocked}`
      : `no relay leads, ${ahead}${last}`,
  };
}

/** Of a job that waits for a time: what for. */
function timerGates({ job, backlog }: JobFacts, stage: Stage): JobGate[] {
  const { waitingFor, waitingDetail, nextAt } = job;
  if (stage !== "timer" || waitingFor === null || backlog !== null) return [];
  const until = nextAt === null ? "until an operator releases it" : `until ${at(nextAt)}`;
  switch (waitingFor) {
    case "delay":
      return [{ gate: "delay", holds: true, detail: `delayed ${until}` }];
    case "retry":
      return [
        {
          gate: "retry",
          holds: true,
          detail: `attempt ${job.attempt} failed${because(waitingDetail)}; the next one waits ${until}`,
        },
      ];
    case "lost":
      return [
        {
          gate: "lost",
          holds: true,
          detail: `the broker has lost it${because(waitingDetail)}; it is dispatched again ${nextAt === null ? "when an operator releases it" : `at ${at(nextAt)}`}`,
        },
      ];
    default:
      return [
        { gate: "parked", holds: true, detail: `${waitingFor} ${until}${because(waitingDetail)}` },
      ];
  }
}

function workersGate({ workers, job }: JobFacts): JobGate {
  const able = workers.filter(({ draining }) => !draining);
  if (able.length > 0) {
    return open(
      "workers",
      `queue ${job.queue} is consumed by ${able.map(({ name }) => name).join(", ")}`,
    );
  }
  const detail =
    workers.length === 0
      ? `no living worker consumes queue ${job.queue}`
      : `all workers of queue ${job.queue} drain: ${workers.map(({ name }) => name).join(", ")}`;
  return { gate: "workers", holds: true, detail };
}

function slotsGate({ workers }: JobFacts): JobGate {
  const able = workers.filter(({ draining }) => !draining);
  const busy = able.filter(
    ({ running, capacity, blockedMs }) =>
      blockedMs !== null || (capacity !== null && running >= capacity),
  );
  const words = able.map(({ name, running, capacity, blockedMs, blockedBy }) => {
    const blocked =
      blockedMs === null
        ? ""
        : ` (its event loop is blocked${blockedBy === null ? "" : ` by ${blockedBy}`})`;
    return `${name} runs ${running}${capacity === null ? "" : ` of ${capacity}`}${blocked}`;
  });
  return {
    gate: "slots",
    holds: able.length > 0 && busy.length === able.length,
    detail: words.join(", ") || "no worker",
  };
}

function runningGate({ job, owner }: JobFacts): JobGate {
  const blocked =
    owner?.blockedMs === null || owner === null
      ? ""
      : `; its event loop has not turned for ${owner.blockedMs} ms${owner.blockedBy === null ? "" : `, blocked by ${owner.blockedBy}`}`;
  const stale =
    job.stale || owner?.alive === false
      ? "; its worker's heartbeat has stopped, another one will take over"
      : "";
  const asked = job.cancelRequestedAt === null ? "" : "; it is asked to end";
  const worker = owner?.name ?? job.worker ?? job.owner ?? "an unknown worker";
  const detail = `attempt ${job.attempt} runs on ${worker} since ${at(job.startedAt)}${blocked}${stale}${asked}`;
  return { gate: "running", holds: true, detail };
}

/** The gates of a job that has not started. */
function waitingGates(facts: JobFacts, stage: Stage): JobGate[] {
  const { job, key, backlog, slot } = facts;
  // Pauses, taps and breakers keep what is dispatched as well: workers do not start it.
  const inQueue = stage === "backlog" || stage === "outbox" || stage === "timer";
  const before = [
    ...timerGates(facts, stage),
    ...stopGates("queue", job.queue, facts.queueStop, facts),
    ...stopGates("type", job.type, facts.typeStop, facts),
    ...(key === "" ? [] : stopGates("key", key, facts.keyStop, facts)),
    ...facts.breakers.map((breaker) => breakerGate(breaker)),
    ...orderGates(facts, inQueue),
    ...limitGates(facts, inQueue),
  ];
  const workers = workersGate(facts);
  const isNext = stage === "backlog" && ![...before, workers].some(({ holds }) => holds);
  const rates = rateGates(facts, isNext);
  const turn: JobGate[] =
    backlog === null
      ? []
      : [
          {
            gate: "turn",
            holds: isNext && rates.length === 0,
            detail: `${counted(backlog.ahead)} of its lane go before it, ${counted(backlog.waiting)} jobs wait in the queue`,
          },
        ];
  const delivery: JobGate[] =
    stage === "dispatched"
      ? [
          slotsGate(facts),
          {
            gate: "delivery",
            holds: true,
            detail:
              slot === null
                ? "it is published and waits in the broker for a worker to take it"
                : `it was dispatched at ${at(slot.dispatchedAt)}, for a worker to take`,
          },
        ]
      : [];
  return [...before, ...rates, workers, ...turn, ...delivery];
}

/** The gates of a job, and which one holds it. */
export function explainOf(facts: JobFacts): JobExplanation {
  const { job, governed } = facts;
  const stage = stageOf(facts);
  const end: JobGate = {
    gate: "ended",
    holds: true,
    detail: `ended as ${job.state} at ${at(job.finishedAt)}`,
  };
  const gates = [
    open("committed", `enqueued at ${at(job.enqueuedAt)}`),
    relayGate(facts, stage),
    ...(stage === "ended"
      ? [end]
      : stage === "running"
        ? [runningGate(facts)]
        : waitingGates(facts, stage)),
  ];
  const { id, queue, type, state } = job;
  return {
    id,
    queue,
    type,
    state,
    governed,
    heldBy: gates.find(({ holds }) => holds) ?? null,
    gates,
  };
}
