/**
 * The same jobs in PostgreSQL and in the model of `test/model`, to take the same steps in both.
 */

import { type Envelope, newJobId, statedFailure } from "@waybill/core";
import { createJobFence, pgExecutor, statementsFor } from "@waybill/postgres";
import type { Dispatched, Message, ModelJobs, Timer } from "../../model/model-jobs.ts";
import { modelOf, type Server, type WorkerName, workers } from "./statement-server.ts";

/** Jobs of a pair. */
export const jobCount = 12;

const queue = "q";
const sql = statementsFor();
const fence = createJobFence();

/** An attempt's claim on a job. */
export interface OwnedPick {
  readonly job: number;
  readonly isLeased: boolean;
  /** True: with the token of the attempt before. */
  readonly isOld: boolean;
  /** Of a failure; undefined: dead-letter. */
  readonly delayMs: number | undefined;
  /** Of the delivery that is handed back. */
  readonly dispatch: number;
}

/** What only the owner of a job may do. */
export type OwnerStep = "complete" | "commit" | "fail" | "cancel attempts" | "release" | "hold";

/** One of the steps. */
export type StatementStep =
  | {
      readonly do: "claim";
      readonly worker: WorkerName;
      readonly jobs: readonly number[];
      readonly dispatch: number;
      readonly death: number;
      readonly expiresInMs: number | null;
    }
  | {
      readonly do: "park";
      readonly worker: WorkerName;
      readonly jobs: readonly number[];
      readonly dispatch: number;
      readonly death: number;
      readonly delayMs: number;
    }
  | { readonly do: OwnerStep; readonly owned: readonly OwnedPick[] }
  | { readonly do: "cancel" | "retry"; readonly jobs: readonly number[] }
  | {
      readonly do: "park dispatch";
      readonly row: number;
      readonly reason: "unroutable" | "nacked" | "refused";
      readonly delayMs: number | null;
    }
  | { readonly do: "fire timers" | "redispatch" }
  | { readonly do: "fire leases"; readonly wasMissing: boolean };

type Answers = readonly [sql: unknown, model: unknown];

function envelopeOf({ id, dispatch, death }: Pick<Message, "id" | "dispatch" | "death">): Envelope {
  return {
    id,
    idSource: "given",
    queue,
    type: "t",
    version: 1,
    dispatch,
    death,
    priority: null,
    orderingKey: null,
    correlationId: null,
    enqueuedAt: new Date(0),
    expiresAt: null,
    runAt: null,
    onTerminal: null,
    origin: null,
    concurrencyKey: null,
    slot: null,
    headers: {},
    payload: "{}",
    payloadBase64: false,
  };
}

/** The columns in the order of their names. */
const textOf = (row: object): string =>
  JSON.stringify(Object.entries(row).toSorted(([a], [b]) => (a < b ? -1 : 1)));
const byText = (a: object, b: object): number => (textOf(a) < textOf(b) ? -1 : 1);
const byId = (a: { readonly id: string }, b: { readonly id: string }): number =>
  a.id < b.id ? -1 : 1;
const idsOf = (rows: readonly { readonly id: string }[]): readonly string[] =>
  rows.map(({ id }) => id).toSorted();

/** See the head of the file. */
export class StatementPair {
  readonly #server: Server;
  readonly #ids = Array.from({ length: jobCount }, () => newJobId());
  readonly #written: Dispatched[] = [];
  readonly #model: ModelJobs = modelOf((rows) => this.#written.push(...rows));

  constructor(server: Server) {
    this.#server = server;
  }

  /** Nothing but the jobs, dispatched once each. */
  async begin(): Promise<void> {
    const { database } = this.#server;
    await database.rows(
      "truncate waybill.inbox, waybill.timer, waybill.outbox, waybill.dead_letter, waybill.failure, waybill.audit_log",
    );
    await database.rows(
      `insert into waybill.outbox (id, kind, dispatch, queue, type, payload, enqueued_at)
       select u.id, 'job', 1, 'q', 't', '{}', now() from unnest($1::uuid[]) as u (id)`,
      [this.#ids],
    );
    const messages = this.#ids.map((id) => ({ id, dispatch: 1, death: 0, expiresAt: null }));
    this.#model.dispatched.push(...messages);
    this.#written.push(
      ...messages.map((message) => ({ kind: "job" as const, message, failures: 0 })),
    );
  }

  /** Takes a step in both: what each answers, and what is in its tables then. */
  async take(step: StatementStep): Promise<{ readonly sql: unknown; readonly model: unknown }> {
    const [found, expected] = await this.#take(step);
    return {
      sql: { answer: found, tables: await this.#tables() },
      model: { answer: expected, tables: this.#modelTables() },
    };
  }

  async #take(step: StatementStep): Promise<Answers> {
    const { database, relay } = this.#server;
    switch (step.do) {
      case "claim":
        return await this.#claim(step);
      case "park":
        return await this.#park(step);
      case "cancel":
      case "retry":
        return await this.#operate(step.do, step.jobs);
      case "park dispatch":
        return await this.#parkDispatch(step);
      case "fire timers":
        return [await relay.fireTimers(1_000), this.#model.fireTimers(1_000)];
      case "redispatch":
        // Workers that have left no row are given a minute.
        await database.rows(
          "update waybill.inbox set started_at = started_at - interval '2 minutes'",
        );
        return [await relay.redispatchOrphans(undefined, 1_000), this.#model.redispatchOrphans()];
      case "fire leases": {
        const before = step.wasMissing ? [workers.unlocked] : [];
        const { missing } = await relay.fireLeases(1_000, before);
        return [missing, this.#model.fireLeases(before)];
      }
      default:
        return await this.#end(step.do, step.owned);
    }
  }

  #id(job: number): string {
    return this.#ids[job] ?? "";
  }

  async #claim(step: StatementStep & { do: "claim" }): Promise<Answers> {
    const { dispatch, death, expiresInMs } = step;
    const me = workers[step.worker];
    const rows = await this.#server.inbox.claim(
      me,
      step.jobs.map((job) => ({
        id: this.#id(job),
        queue,
        type: "t",
        dispatch,
        death,
        enqueuedAt: null,
        expiresAt: expiresInMs === null ? null : new Date(Date.now() + expiresInMs),
        onTerminal: null,
      })),
    );
    const found = rows.map(({ queue: _queue, ...row }) => ({ ...row, token: Number(row.token) }));
    const expected = step.jobs.map((job) => {
      const message = { id: this.#id(job), dispatch, death, expiresAt: expiresInMs };
      const { isCancelRequested: _requested, ...row } = this.#model.claim(me, message);
      return { ...row, id: message.id };
    });
    return [found.toSorted(byId), expected.toSorted(byId)];
  }

  async #park(step: StatementStep & { do: "park" }): Promise<Answers> {
    const { dispatch, death, delayMs } = step;
    const owner = workers[step.worker];
    const messages = step.jobs.map((job) => ({
      id: this.#id(job),
      dispatch,
      death,
      expiresAt: null,
    }));
    await this.#server.inbox.park(
      messages.map((message) => ({
        envelope: envelopeOf(message),
        reason: "held",
        detail: "a copy",
        owner,
        delayMs,
        windowMs: null,
        parkedAt: null,
        fireAt: null,
      })),
    );
    for (const message of messages) this.#model.park(message, owner, delayMs);
    return [0, 0];
  }

  async #operate(what: "cancel" | "retry", jobs: readonly number[]): Promise<Answers> {
    const { text } = what === "cancel" ? sql.cancel_job : sql.retry_job;
    const found: unknown[] = [];
    const expected: unknown[] = [];
    for (const id of jobs.map((job) => this.#id(job))) {
      const [row] = await this.#server.database.rows(text, [id, queue, "somebody", ""]);
      found.push(what === "cancel" ? row?.["state"] : row !== undefined);
      expected.push(what === "cancel" ? this.#model.cancelJob(id) : this.#model.retryJob(id));
    }
    return [found, expected];
  }

  async #parkDispatch(step: StatementStep & { do: "park dispatch" }): Promise<Answers> {
    const { database, relay, epoch } = this.#server;
    const rows = await database.rows<{ tx: string; seq: string } & Record<string, unknown>>(
      "select tx::text, seq::text, id::text, kind, dispatch, failures from waybill.outbox order by seq",
    );
    const row = rows[step.row % rows.length];
    const same = this.#written.find(
      ({ kind, message, failures }) =>
        kind === row?.["kind"] &&
        message.id === row["id"] &&
        message.dispatch === row["dispatch"] &&
        failures === row["failures"],
    );
    if (row === undefined || same === undefined) return [row, same];
    const { reason, delayMs } = step;
    await relay.park(epoch, [{ tx: row.tx, seq: row.seq, reason, detail: "no", delayMs }]);
    this.#model.parkDispatch(same, reason, delayMs);
    return [0, 0];
  }

  async #end(what: OwnerStep, picks: readonly OwnedPick[]): Promise<Answers> {
    const model = this.#model;
    const { inbox } = this.#server;
    const jobs = [...new Map(picks.map((pick) => [pick.job, pick])).values()].map((pick) => {
      const id = this.#id(pick.job);
      const token = (model.inbox.get(id)?.token ?? 1) - Number(pick.isOld);
      return { ...pick, id, token, message: { id, dispatch: 1, death: 0, expiresAt: null } };
    });
    const refs = jobs.map(({ id, token, isLeased, dispatch, message }) => ({
      id,
      queue,
      token: String(token),
      leased: isLeased,
      result: null,
      dispatch,
      envelope: envelopeOf(message),
    }));
    const those = (is: (job: (typeof jobs)[0]) => boolean): readonly string[] =>
      idsOf(jobs.filter(is));
    switch (what) {
      case "complete":
        return [idsOf(await inbox.complete(refs)), those((each) => model.complete(each))];
      case "cancel attempts":
        return [idsOf(await inbox.cancel(refs)), those((each) => model.cancelAttempt(each))];
      case "release":
        return [
          idsOf(await inbox.release(refs)),
          those((job) => model.release(job, { ...job.message, dispatch: job.dispatch })),
        ];
      case "hold":
        return [idsOf(await inbox.hold(refs)), those((each) => model.hold(each, each.message))];
      case "commit": {
        const executor = pgExecutor(this.#server.database.pool as never);
        const found: string[] = [];
        for (const ref of refs) {
          const isGuarded = await fence.guard(executor, ref);
          if (isGuarded && (await fence.complete(executor, ref, null))) found.push(ref.id);
        }
        return [found.toSorted(), those((each) => model.guard(each) && model.complete(each))];
      }
      case "fail": {
        const failure = statedFailure("unknown", "no");
        const failed = await inbox.fail(
          refs.map((ref, n) => ({
            ...ref,
            failure,
            attempted: true,
            retryDelayMs: jobs[n]?.delayMs,
          })),
        );
        const states = new Map(failed.map(({ id, state }) => [id, state]));
        return [
          jobs.map(({ id }) => states.get(id)),
          jobs.map((each) => model.fail(each, each.message, each.delayMs)),
        ];
      }
    }
  }

  async #tables(): Promise<unknown> {
    const { database } = this.#server;
    const read = async (text: string): Promise<readonly object[]> =>
      (await database.rows(text)).toSorted(byText);
    return {
      inbox: await read(
        `select id::text as id, state, attempt, crashes, dispatch, deaths, token::integer as token,
           owner::text as owner, cancel_requested_at is not null as requested,
           finished_at is not null as ended
         from waybill.inbox`,
      ),
      timers: await read(
        `select id::text as id, kind, dispatch, reason, owner::text as owner, failures,
           coalesce((headers ->> 'waybill-death')::integer, 0) as death,
           case when fire_at = 'infinity' then 'never' when fire_at <= clock_timestamp() then 'now' else 'later' end as due
         from waybill.timer`,
      ),
      letters: await read("select id::text as id from waybill.dead_letter"),
      outbox: await read("select id::text as id, kind, dispatch, failures from waybill.outbox"),
    };
  }

  #modelTables(): unknown {
    const { inbox, timers, deadLetters, nowMs } = this.#model;
    const due = ({ fireAt }: Timer): string =>
      fireAt === Infinity ? "never" : fireAt <= nowMs ? "now" : "later";
    return {
      inbox: [...inbox]
        .map(([id, { isCancelRequested: requested, ...row }]) => ({
          id,
          ...row,
          requested,
          ended: ["succeeded", "failed", "cancelled"].includes(row.state),
        }))
        .toSorted(byText),
      timers: [...timers.values()]
        .map((timer) => ({
          id: timer.message.id,
          kind: timer.kind,
          dispatch: timer.message.dispatch,
          reason: timer.reason,
          owner: timer.owner,
          failures: timer.failures,
          death: timer.message.death,
          due: due(timer),
        }))
        .toSorted(byText),
      letters: [...deadLetters.keys()].map((id) => ({ id })).toSorted(byText),
      outbox: this.#written
        .map(({ kind, message: { id, dispatch }, failures }) => ({ id, kind, dispatch, failures }))
        .toSorted(byText),
    };
  }
}
