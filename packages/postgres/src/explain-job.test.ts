import { expect, test } from "vitest";
import { explainOf } from "./explain-job.ts";
import { type JobFacts, jobFactsOf } from "./job-facts.ts";

const now = "2030-01-01T12:00:00.000Z";
const later = "2030-01-01T13:00:00.000Z";

interface Given {
  readonly job?: Readonly<Record<string, unknown>>;
  readonly queue?: Readonly<Record<string, unknown>>;
  readonly [more: string]: unknown;
}

const worker = {
  name: "worker-1",
  state: "running",
  running: 1,
  blocked_ms: null,
  blocked_by: null,
  share: 10,
  capacity: 10,
};

/** A job that waits for its turn in a governed queue with a worker, with what else is said. */
const factsOf = ({ job = {}, queue = {}, ...more }: Given = {}): JobFacts =>
  jobFactsOf({
    now,
    job: {
      id: "id-1",
      queue: "emails",
      type: "email.welcome",
      version: 1,
      state: "queued",
      relayed: true,
      attempt: 0,
      enqueued_at: now,
      ...job,
    },
    key: "",
    relay: { holder: "relay-1", held: true, saved_at: now },
    written: { dispatch: 1, relayed: true, ahead: null },
    queue: { governed: true, settings: {}, ...queue },
    gates: [],
    backlog: { place: 7, ahead: 2, waiting: 5 },
    slot: null,
    head: null,
    used: { queue: 0, type: 0, key: 0 },
    breakers: [],
    workers: [worker],
    owner: null,
    ...more,
  });

const holder = (given: Given): string => {
  const { heldBy } = explainOf(factsOf(given));
  return heldBy === null ? "nothing" : `${heldBy.gate}: ${heldBy.detail}`;
};

const stop = (kind: string, more: object): object => ({ kind, name: "x", ...more });
const paused = { paused_at: now, paused_by: "anna", pause_reason: "abuse" };
const closed = { closed_until: later, closed_reason: "too many" };
const dispatched = { backlog: null, slot: { waiting: false, dispatched_at: now } };

test.each<readonly [what: string, given: Given, held: string]>([
  ["its turn", {}, "turn: 2 of its lane go before it, 5 jobs wait in the queue"],
  [
    "the relay that leads",
    { backlog: null, job: { relayed: false }, written: { dispatch: 1, relayed: false, ahead: 3 } },
    "relayed: relay relay-1 leads and has not read it yet, 3 rows before it",
  ],
  [
    "a broker that takes nothing",
    {
      backlog: null,
      job: { relayed: false },
      written: { dispatch: 1, relayed: false, ahead: 3 },
      relay: { holder: "relay-1", held: true, saved_at: "2020-01-01T00:00:00.000Z" },
    },
    "relayed: relay relay-1 leads and has not read it yet, 3 rows before it; nothing was published since " +
      "2020-01-01T00:00:00.000Z, so the broker is blocked or away: see waybill doctor",
  ],
  [
    "the loss of its message",
    {
      backlog: null,
      job: { waiting_for: "lost", waiting_detail: "the queue is empty", next_at: later },
    },
    `lost: the broker has lost it: the queue is empty; it is dispatched again at ${later}`,
  ],
  [
    "that no relay leads",
    {
      backlog: null,
      written: { dispatch: 1, relayed: false, ahead: 10_000 },
      relay: { holder: null, held: false, saved_at: now },
    },
    `relayed: no relay leads, 10000 or more rows before it; a relay last read at ${now}`,
  ],
  [
    "its delay",
    { backlog: null, written: null, job: { relayed: false, waiting_for: "delay", next_at: later } },
    `delay: delayed until ${later}`,
  ],
  [
    "its retry",
    {
      backlog: null,
      job: {
        state: "retry_waiting",
        attempt: 2,
        waiting_for: "retry",
        waiting_detail: "transient: no luck",
        next_at: later,
      },
    },
    `retry: attempt 2 failed: transient: no luck; the next one waits until ${later}`,
  ],
  [
    "that no worker knows its type",
    { backlog: null, job: { waiting_for: "no_handler", next_at: "infinity" } },
    "parked: no_handler until an operator releases it",
  ],
  [
    "a paused queue",
    { queue: paused },
    `queue_paused: queue emails is paused since ${now} by anna: abuse`,
  ],
  [
    "a paused type",
    { gates: [stop("type", paused)] },
    `type_paused: type email.welcome is paused since ${now} by anna: abuse`,
  ],
  [
    "a paused key",
    { key: "acme", gates: [stop("key", paused)] },
    `key_paused: key acme is paused since ${now} by anna: abuse`,
  ],
  [
    "a closed queue",
    { queue: closed },
    `queue_closed: queue emails is closed until ${later}: too many`,
  ],
  [
    "a closed key",
    { key: "acme", gates: [stop("key", closed)] },
    `key_closed: key acme is closed until ${later}: too many`,
  ],
  [
    "a breaker",
    {
      breakers: [
        { name: "mail-api", state: "closed" },
        { name: "pay-api", state: "open", reason: "8 of 10 failed", probe_at: later },
      ],
    },
    `breaker: breaker pay-api is open until ${later}: 8 of 10 failed`,
  ],
  [
    "a breaker that was opened by hand",
    { breakers: [{ name: "pay-api", state: "open", manual: true }] },
    "breaker: breaker pay-api is open until an operator closes it",
  ],
  [
    "a probe",
    { breakers: [{ name: "pay-api", state: "half_open" }] },
    "breaker: breaker pay-api is half open: one job at a time goes as a probe",
  ],
  [
    "the first of its ordering key, which runs",
    {
      job: { ordering_key: "k" },
      head: { id: "id-0", dispatched: true, state: "running", worker: "w", started_at: now },
    },
    `order: behind job id-0 of ordering key k, which runs on w since ${now}`,
  ],
  [
    "the first of its ordering key, which has failed",
    {
      job: { ordering_key: "k" },
      head: {
        id: "id-0",
        dispatched: true,
        waiting: true,
        state: "retry_waiting",
        retry_at: later,
        failure: "transient: no luck",
      },
    },
    `order: behind job id-0 of ordering key k, which waits for its retry until ${later}: transient: no luck`,
  ],
  [
    "the limit of its queue",
    { queue: { settings: { concurrency: 5 } }, used: { queue: 5 } },
    "queue_limit: queue emails: 5 of 5 in use",
  ],
  [
    "the limit of its type",
    {
      queue: { settings: { types: { "email.welcome": { concurrency: 2 } } } },
      used: { type: 2 },
    },
    "type_limit: type email.welcome: 2 of 2 in use",
  ],
  [
    "the limit of its key's tier",
    {
      key: "acme",
      gates: [stop("key", { tier: "gold" })],
      queue: { settings: { keys: { concurrency: 1, tiers: { gold: { concurrency: 4 } } } } },
      used: { key: 4 },
    },
    "key_limit: key acme: 4 of 4 in use",
  ],
  [
    "a rate",
    { queue: { settings: { rate: { limit: 200 } } } },
    "rate: queue emails: rate 200/s; it waits for a token, for some 15 ms if those of its lane alone go before it",
  ],
  ["that nobody works", { workers: [] }, "workers: no living worker consumes queue emails"],
  [
    "that all workers drain",
    { workers: [{ ...worker, state: "draining" }] },
    "workers: all workers of queue emails drain: worker-1",
  ],
  [
    "that all slots are taken",
    { ...dispatched, workers: [{ ...worker, running: 10 }] },
    "slots: worker-1 runs 10 of 10",
  ],
  [
    "a worker whose event loop is blocked",
    { ...dispatched, workers: [{ ...worker, blocked_ms: 900, blocked_by: "email.bye" }] },
    "slots: worker-1 runs 1 of 10 (its event loop is blocked by email.bye)",
  ],
  [
    "its way to a worker",
    dispatched,
    `delivery: it was dispatched at ${now}, for a worker to take`,
  ],
  [
    "its way to a worker of a pass-through queue",
    { queue: { governed: false }, backlog: null },
    "delivery: it is published and waits in the broker for a worker to take it",
  ],
  [
    "its worker",
    {
      backlog: null,
      job: { state: "running", attempt: 1, started_at: now, stale: true },
      owner: { name: "worker-1", alive: false, blocked_ms: 50, blocked_by: "email.bye" },
    },
    `running: attempt 1 runs on worker-1 since ${now}; its event loop has not turned for 50 ms, blocked by email.bye; its worker's heartbeat has stopped, another one will take over`,
  ],
  [
    "its end",
    { backlog: null, job: { state: "succeeded", finished_at: later } },
    `ended: ended as succeeded at ${later}`,
  ],
])("what holds a job is told: %s", (_what, given, held) => {
  expect(holder(given)).toBe(held);
});

test("the gates come in the order in which the job passes them, and the first that holds is named", () => {
  const { gates, heldBy } = explainOf(
    factsOf({
      key: "acme",
      job: { ordering_key: "k" },
      queue: { settings: { concurrency: 5, rate: { limit: 1 } }, ...paused },
      breakers: [{ name: "pay-api", state: "open" }],
      used: { queue: 5 },
      workers: [],
    }),
  );

  expect(gates.map(({ gate, holds }) => (holds ? gate.toUpperCase() : gate))).toEqual([
    "committed",
    "relayed",
    "QUEUE_PAUSED",
    "type_paused",
    "key_paused",
    "BREAKER",
    "order",
    "QUEUE_LIMIT",
    "rate",
    "WORKERS",
    "turn",
  ]);
  expect(heldBy?.gate).toBe("queue_paused");
});

test("a pause keeps no job that runs already", () => {
  const { gates } = explainOf(factsOf({ queue: paused, job: { state: "running" }, backlog: null }));

  expect(gates.map(({ gate }) => gate)).toEqual(["committed", "relayed", "running"]);
});

test("the limit of a pass-through queue is told by the shares of its workers, and does not hold by itself", () => {
  const { gates } = explainOf(
    factsOf({
      queue: { governed: false, settings: { concurrency: 10 } },
      backlog: null,
      workers: [worker, { ...worker, name: "worker-2", share: null }],
    }),
  );

  expect(gates.find(({ gate }) => gate === "queue_limit")).toEqual({
    gate: "queue_limit",
    holds: false,
    detail: "queue emails: 10, shared out to workers: worker-1 10, worker-2 none yet",
  });
});
