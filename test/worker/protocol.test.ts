import { randomUUID } from "node:crypto";
import { newJobId } from "@waybill/core";
import { type ClaimRequest, createInboxStore, type InboxStore } from "@waybill/postgres";
import * as fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { verdictOf } from "../../packages/worker/src/verdict.ts";
import { createMigratedDatabase, type TestDatabase } from "../support/index.ts";
import { addWorker } from "../support/worker-row.ts";
import { claimOf, type ModelMessage, type ModelRow } from "./support/protocol-model.ts";

const owners = { me: randomUUID(), alive: randomUUID(), dead: randomUUID() };
const nameOf = (owner: string | null): ModelRow["owner"] =>
  owner === null ? null : owner === owners.me ? "me" : owner === owners.alive ? "alive" : "dead";

let database: TestDatabase;
let store: InboxStore;

beforeAll(async () => {
  database = await createMigratedDatabase();
  store = createInboxStore(database.pool);
  for (const name of ["me", "alive"] as const) {
    await addWorker(database, name, { id: owners[name] });
  }
  return () => database[Symbol.asyncDispose]();
});

const request = (id: string, message: ModelMessage): ClaimRequest => ({
  id,
  queue: "q",
  type: "t",
  dispatch: message.dispatch,
  death: message.death,
  enqueuedAt: null,
  expiresAt: message.isExpired ? new Date(Date.now() - 60_000) : null,
  onTerminal: null,
});

async function plant(id: string, row: ModelRow): Promise<void> {
  await database.pool.query(
    `insert into waybill.inbox (id, queue, type, state, attempt, crashes, dispatch, deaths, token, owner, cancel_requested_at, finished_at)
     values ($1, 'q', 't', $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [
      id,
      row.state,
      row.attempt,
      row.crashes,
      row.dispatch,
      row.deaths,
      row.token,
      row.owner === null ? null : owners[row.owner],
      row.isCancelRequested ? new Date() : null,
      ["succeeded", "failed", "cancelled"].includes(row.state) ? new Date(0) : null,
    ],
  );
}

async function look(id: string): Promise<ModelRow | undefined> {
  const [row] = await database.rows("select * from waybill.inbox where id = $1", [id]);
  if (row === undefined) return undefined;
  return {
    state: row["state"] as ModelRow["state"],
    attempt: Number(row["attempt"]),
    crashes: Number(row["crashes"]),
    dispatch: Number(row["dispatch"]),
    deaths: Number(row["deaths"]),
    token: Number(row["token"]),
    owner: nameOf(row["owner"] as string | null),
    isCancelRequested: row["cancel_requested_at"] !== null,
  };
}

const row = (changes: Partial<ModelRow>): ModelRow => ({
  state: "running",
  attempt: 1,
  crashes: 0,
  dispatch: 2,
  deaths: 0,
  token: 5,
  owner: "dead",
  isCancelRequested: false,
  ...changes,
});
const message = (changes: Partial<ModelMessage> = {}): ModelMessage => ({
  dispatch: 2,
  death: 0,
  isExpired: false,
  ...changes,
});

/** Every line of the table: the row there is, the message that comes, what the line says. */
const table: readonly [
  line: string,
  before: ModelRow | undefined,
  message: ModelMessage,
  verdict: ReturnType<typeof claimOf>["verdict"],
  after: Partial<ModelRow>,
][] = [
  [
    "absent runs",
    undefined,
    message(),
    "run",
    { state: "running", attempt: 1, token: 1, owner: "me" },
  ],
  [
    "absent and expired ends as cancelled",
    undefined,
    message({ isExpired: true }),
    "cancelled",
    { state: "cancelled", attempt: 0 },
  ],
  [
    "absent dead letter keeps its marker",
    undefined,
    message({ death: 3 }),
    "run",
    { deaths: 3, attempt: 1 },
  ],
  [
    "running with a live owner is held, same dispatch",
    row({ owner: "alive" }),
    message(),
    "held",
    row({ owner: "alive" }),
  ],
  [
    "running with a live owner is held, later dispatch",
    row({ owner: "alive" }),
    message({ dispatch: 9 }),
    "held",
    row({ owner: "alive" }),
  ],
  [
    "running with a live owner is held, expired",
    row({ owner: "alive" }),
    message({ isExpired: true }),
    "held",
    row({ owner: "alive" }),
  ],
  [
    "running with a live owner is held, cancel requested",
    row({ owner: "alive", isCancelRequested: true }),
    message(),
    "held",
    { state: "running", token: 5 },
  ],
  [
    "running with a dead owner is taken over and the crash counted",
    row({}),
    message(),
    "run",
    { crashes: 1, attempt: 1, token: 6, owner: "me" },
  ],
  [
    "running with a dead owner is taken over by an older copy too",
    row({}),
    message({ dispatch: 1 }),
    "run",
    { crashes: 1, dispatch: 2, token: 6 },
  ],
  [
    "running with a dead owner and a cancel request ends as cancelled",
    row({ isCancelRequested: true }),
    message(),
    "cancelled",
    { state: "cancelled", crashes: 0 },
  ],
  [
    "running and mine runs: the answer to the claim was lost",
    row({ owner: "me" }),
    message(),
    "run",
    { crashes: 0, attempt: 1, token: 6 },
  ],
  [
    "waiting for a retry ignores the copy of the finished attempt",
    row({ state: "retry_waiting", owner: null }),
    message(),
    "stale",
    row({ state: "retry_waiting", owner: null }),
  ],
  [
    "waiting for a retry ignores an older copy",
    row({ state: "retry_waiting" }),
    message({ dispatch: 1 }),
    "stale",
    { state: "retry_waiting", token: 5 },
  ],
  [
    "waiting for a retry runs when the retry comes",
    row({ state: "retry_waiting" }),
    message({ dispatch: 3 }),
    "run",
    { attempt: 2, token: 6, dispatch: 3, crashes: 0 },
  ],
  [
    "waiting with a cancel request ends as cancelled",
    row({ state: "retry_waiting", isCancelRequested: true }),
    message({ dispatch: 3 }),
    "cancelled",
    { state: "cancelled" },
  ],
  [
    "waiting and expired ends as cancelled after a failure",
    row({ state: "retry_waiting" }),
    message({ dispatch: 3, isExpired: true }),
    "cancelled",
    { state: "cancelled" },
  ],
  [
    "a stale copy that has expired ends no job that waits: it may have been redriven without an expiry",
    row({ state: "retry_waiting" }),
    message({ isExpired: true }),
    "stale",
    row({ state: "retry_waiting" }),
  ],
  [
    "waiting and expired goes on if it was handed back",
    row({ state: "retry_waiting", owner: null }),
    message({ dispatch: 3, isExpired: true }),
    "run",
    { attempt: 2, token: 6, dispatch: 3, crashes: 0 },
  ],
  [
    "succeeded is a duplicate",
    row({ state: "succeeded" }),
    message({ dispatch: 9 }),
    "duplicate",
    row({ state: "succeeded" }),
  ],
  [
    "cancelled is a duplicate",
    row({ state: "cancelled" }),
    message({ dispatch: 9 }),
    "duplicate",
    row({ state: "cancelled" }),
  ],
  [
    "failed with the marker of its latest death is redriven",
    row({ state: "failed", deaths: 2, attempt: 7, crashes: 3 }),
    message({ death: 2 }),
    "run",
    { state: "running", attempt: 1, crashes: 0, deaths: 2, token: 6 },
  ],
  [
    "failed with the marker of an earlier death is a duplicate",
    row({ state: "failed", deaths: 2 }),
    message({ death: 1 }),
    "duplicate",
    row({ state: "failed", deaths: 2 }),
  ],
  [
    "failed without a marker is a duplicate",
    row({ state: "failed", deaths: 1 }),
    message({ dispatch: 9 }),
    "duplicate",
    row({ state: "failed", deaths: 1 }),
  ],
];

describe("each line of the claim's table", () => {
  test.each(table)("%s", async (_line, before, incoming, verdict, after) => {
    const id = newJobId();
    if (before !== undefined) await plant(id, before);

    const [claimed] = await store.claim(owners.me, [request(id, incoming)]);

    expect(claimed === undefined ? undefined : verdictOf(claimed, owners.me)).toBe(verdict);
    expect(await look(id)).toMatchObject(after);
    expect(claimOf(before, incoming)).toMatchObject({ verdict, row: after });
  });
});

test("a claim of many jobs at once decides each as the table does", async () => {
  const states = [
    "queued",
    "running",
    "retry_waiting",
    "succeeded",
    "failed",
    "cancelled",
  ] as const;
  const small = fc.integer({ min: 1, max: 3 });
  const anyRow: fc.Arbitrary<ModelRow> = fc.record({
    state: fc.constantFrom(...states),
    attempt: small,
    crashes: fc.integer({ min: 0, max: 3 }),
    dispatch: small,
    deaths: fc.integer({ min: 0, max: 2 }),
    token: small,
    owner: fc.constantFrom("me", "alive", "dead", null),
    isCancelRequested: fc.boolean(),
  });
  const anyMessage: fc.Arbitrary<ModelMessage> = fc.record({
    dispatch: small,
    death: fc.integer({ min: 0, max: 2 }),
    isExpired: fc.boolean(),
  });
  const jobs = fc.array(fc.tuple(fc.option(anyRow, { nil: undefined }), anyMessage), {
    minLength: 1,
    maxLength: 40,
  });

  await fc.assert(
    fc.asyncProperty(jobs, async (batch) => {
      const planted = batch.map(([before, incoming]) => ({ id: newJobId(), before, incoming }));
      for (const { id, before } of planted) if (before !== undefined) await plant(id, before);

      const rows = await store.claim(
        owners.me,
        planted.map(({ id, incoming }) => request(id, incoming)),
      );

      expect(rows).toHaveLength(planted.length);
      for (const { id, before, incoming } of planted) {
        const claimed = rows.find((each) => each.id === id);
        const expected = claimOf(before, incoming);
        expect(claimed && verdictOf(claimed, owners.me)).toBe(expected.verdict);
        expect(await look(id)).toEqual(expected.row);
      }
    }),
    { numRuns: 40 },
  );
});
