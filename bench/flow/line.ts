/** A database, a queue, relays and workers of their own: what one run of a measurement needs. */

import { join } from "node:path";
import type { QueueSettings } from "@waybill/core";
import { createOutbox, type EnqueueItem, type Outbox, pgDatabase } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { isAlive } from "../../scripts/services/processes.ts";
import {
  type Child,
  type Children,
  createChildren,
  type Environment,
} from "../../scripts/stage/children.ts";
import { type Ground, prepareGround } from "../../scripts/stage/ground.ts";
import { until } from "../../scripts/stage/until.ts";
import { placeOf, waybill, workerOf } from "../../scripts/stage/waybill.ts";
import { nowUs } from "./clock.ts";
import { type FlowJob, flowJob, onlyType } from "./jobs.ts";
import { type Cpu, readCpu } from "./processor.ts";
import { readRuns, type Run, type WorkerLog } from "./runs.ts";
import type { Stage } from "./stage.ts";
import type { WorkerPlan } from "./worker-plan.ts";

/** What a line consists of. */
export interface LinePlan {
  readonly settings: QueueSettings;
  /** @default one type, "job" */
  readonly types?: readonly string[] | undefined;
  /** @default 1 */
  readonly relays?: number | undefined;
  /** @default 1 */
  readonly workers?: number | undefined;
  /** Of each worker. */
  readonly concurrency: number;
  /** Whether every run is written down, or only those of jobs whose latency is measured. */
  readonly logsAll: boolean;
}

/** A job to enqueue. */
export type Item = EnqueueItem<FlowJob> & { readonly type?: string | undefined };

interface Member {
  readonly child: Child;
  readonly log: WorkerLog | undefined;
}

const module = new URL("worker.ts", import.meta.url).pathname;
const deadlineMs = 300_000;
let lines = 0;

/** See the head of the file. */
export class Line implements AsyncDisposable {
  readonly ground: Ground;
  readonly queue: string;
  readonly outbox: Outbox<PoolClient>;
  readonly #stage: Stage;
  readonly #plan: LinePlan;
  readonly #children: Children;
  readonly #relays: Member[] = [];
  readonly #workers: Member[] = [];
  readonly #logs: WorkerLog[] = [];
  readonly #killsUs: number[] = [];
  /** Some of the jobs that were enqueued last. */
  #lastIds: readonly string[] = [];
  /** True where the logs are read while jobs run. */
  #isCut = false;
  readonly #jobs: ReadonlyMap<string, FlowJob>;

  private constructor(stage: Stage, plan: LinePlan, ground: Ground, queue: string) {
    this.ground = ground;
    this.queue = queue;
    this.#stage = stage;
    this.#plan = plan;
    this.outbox = createOutbox({ database: pgDatabase(ground.pool) });
    this.#children = createChildren((failure) => stage.stop.abort(failure));
    const types = plan.types ?? onlyType;
    this.#jobs = new Map(types.map((type) => [type, flowJob(queue, type)]));
  }

  /** Starts everything, and resolves when it is at work. */
  static async start(stage: Stage, plan: LinePlan): Promise<Line> {
    lines += 1;
    const queue = `flow-${lines}`;
    const ground = await prepareGround(stage.services, {
      name: "flow",
      queues: [queue],
      shownQueues: [],
      tables: [],
    });
    const line = new Line(stage, plan, ground, queue);
    try {
      for (let n = 0; n < (plan.relays ?? 1); n += 1) line.startRelay();
      await Promise.all(Array.from({ length: plan.workers ?? 1 }, () => line.startWorker()));
      await line.leader();
    } catch (error) {
      await line[Symbol.asyncDispose]();
      throw error;
    }
    return line;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#children[Symbol.asyncDispose]();
    await this.ground[Symbol.asyncDispose]();
  }

  startRelay(): Member {
    const name = `relay-${this.#relays.length + 1}-${nowUs()}`;
    const child = this.#children.start(name, [waybill, "relay"], {
      ...this.#shared(),
      WAYBILL_NAME: name,
    });
    const member: Member = { child, log: undefined };
    this.#relays.push(member);
    return member;
  }

  async startWorker(): Promise<Member> {
    const { settings, types = onlyType, concurrency, logsAll } = this.#plan;
    const { directory, stop } = this.#stage;
    const file = join(directory, `${this.queue}-${this.#logs.length + 1}.log`);
    const log: WorkerLog = { file, killedUs: undefined };
    this.#logs.push(log);
    const { queue } = this;
    const plan: WorkerPlan = { queue, types, concurrency, settings, log: file, logsAll };
    const child = this.#children.start(`worker ${this.#logs.length}`, [waybill, "worker", module], {
      ...this.#shared(),
      WAYBILL_NAME: `worker-${this.#logs.length}`,
      WAYBILL_GRACE: "1s",
      FLOW_PLAN: JSON.stringify(plan),
    });
    const member: Member = { child, log };
    this.#workers.push(member);
    await workerOf(this.ground.pool, child.pid, stop.signal);
    return member;
  }

  #shared(): Environment {
    // A line for each job would measure the pipe to this process as well.
    return { ...placeOf(this.ground), LOG_LEVEL: "warn" };
  }

  get relays(): readonly Member[] {
    return this.#relays;
  }

  get workers(): readonly Member[] {
    return this.#workers;
  }

  /** The relay that holds the term. */
  async leader(): Promise<Member> {
    const { pool } = this.ground;
    return await this.#until("a relay to lead", async () => {
      const found = await pool.query<{ name: string }>(
        "select holder_name as name from waybill.relay where lease_until > clock_timestamp()",
      );
      return this.#relays.find(({ child }) => child.name === found.rows[0]?.name);
    });
  }

  /** SIGKILL; at the return the process runs nothing any more. */
  kill(member: Member): void {
    const gone = member.child.kill();
    gone.catch(() => undefined);
    // Not left to an event, which would come later: what a killed run overlaps with counts.
    while (isAlive(member.child.pid));
    const killedUs = nowUs();
    this.#killsUs.push(killedUs);
    if (member.log !== undefined) member.log.killedUs = killedUs;
    for (const members of [this.#relays, this.#workers]) {
      const index = members.indexOf(member);
      if (index !== -1) members.splice(index, 1);
    }
  }

  /** Enqueues in one transaction; `beforeCommit` is called when only its commit is left. */
  async enqueue(items: readonly Item[], beforeCommit?: () => Promise<void>): Promise<void> {
    this.#lastIds = await pgDatabase<PoolClient>(this.ground.pool).transaction(async (tx) => {
      const ids = await this.write(tx, items);
      await beforeCommit?.();
      return ids;
    });
  }

  /** Writes jobs in a transaction, in their order; resolves with the ids of the last ones. */
  async write(tx: PoolClient, items: readonly Item[]): Promise<readonly string[]> {
    let lastIds: readonly string[] = [];
    for (let from = 0; from < items.length;) {
      const type = items[from]?.type ?? "job";
      let to = from + 1;
      while (to < items.length && to - from < 1_000 && (items[to]?.type ?? "job") === type) to += 1;
      const job = this.#jobs.get(type);
      if (job === undefined) throw new Error(`The line has no type ${type}.`);
      const part = items.slice(from, to).map(({ payload, options }) => ({ payload, options }));
      const receipts = await this.outbox.enqueueMany(tx, job, part);
      lastIds = receipts.slice(-20).map(({ jobId }) => jobId);
      from = to;
    }
    return lastIds;
  }

  /** Jobs in a state. */
  async count(state: string): Promise<number> {
    return await this.#number(
      "select count(*)::integer as n from waybill.inbox where queue = $1 and state = $2",
      [this.queue, state],
    );
  }

  /** Waits until so many jobs have succeeded. */
  async ended(jobs: number): Promise<void> {
    await this.#until(
      `${jobs} jobs to succeed`,
      async () => {
        // A look at a few is next to free; the count reads the whole table.
        if (!(await this.#lastOnesEnded())) return undefined;
        return (await this.count("succeeded")) >= jobs ? true : undefined;
      },
      100,
    );
  }

  async #lastOnesEnded(): Promise<boolean> {
    const left = await this.#number(
      `select count(*)::integer as n
       from unnest($1::uuid[]) as j (id)
       where not exists (select from waybill.inbox as i where i.id = j.id and i.state = 'succeeded')`,
      [this.#lastIds],
    );
    return left === 0;
  }

  /** Slots and backlog rows that are there. */
  async leftovers(): Promise<{ readonly slots: number; readonly backlog: number }> {
    const [slots, backlog] = await Promise.all([
      this.#number("select count(*)::integer as n from waybill.slot", []),
      this.#number("select count(*)::integer as n from waybill.backlog", []),
    ]);
    return { slots, backlog };
  }

  /** Waits until the relay has read all that was enqueued. */
  async read(): Promise<void> {
    const { pool } = this.ground;
    await this.#until("the relay to read everything", async () => {
      const found = await pool.query(
        `select from waybill.outbox as o
         where not exists (select from waybill.backlog as b where b.id = o.id and b.queue = o.queue)
           and not exists (select from waybill.slot as s where s.id = o.id and s.queue = o.queue)
           and not exists (select from waybill.inbox as i where i.id = o.id and i.queue = o.queue)
         limit 1`,
      );
      return found.rowCount === 0 ? true : undefined;
    });
  }

  /** Gives keys the tiers of their own names. */
  async setTiers(keys: readonly string[]): Promise<void> {
    await this.ground.pool.query(
      "insert into waybill.queue_gate (queue, kind, name, tier) select $1, 'key', key, key from unnest($2::text[]) as key",
      [this.queue, keys],
    );
  }

  async runs(): Promise<readonly Run[]> {
    return await readRuns(this.#logs, this.#isCut);
  }

  /** When workers claimed the jobs, in microseconds, in that order. */
  async claimsUs(): Promise<readonly number[]> {
    const found = await this.ground.pool.query<{ us: number }>(
      "select (extract(epoch from started_at) * 1000000)::double precision as us from waybill.inbox order by started_at",
    );
    return found.rows.map(({ us }) => us);
  }

  /** Waits until so many runs were written down, whatever else is still to do; the runs may be read then. */
  async logged(count: number): Promise<void> {
    this.#isCut = true;
    await this.#until(`${count} runs to be logged`, async () =>
      (await this.runs()).length >= count ? true : undefined,
    );
  }

  /** When processes were killed, by the monotonic clock in microseconds. */
  get killsUs(): readonly number[] {
    return this.#killsUs;
  }

  /** CPU of everything so far. */
  async cpu(): Promise<Cpu> {
    const { postgres, rabbitmq } = this.#stage.services;
    return await readCpu({
      relay: this.#relays.map(({ child }) => child.pid),
      worker: this.#workers.map(({ child }) => child.pid),
      postgres: [postgres?.pid],
      broker: [rabbitmq?.pid],
    });
  }

  async #number(sql: string, values: readonly unknown[]): Promise<number> {
    const found = await this.ground.pool.query<{ n: number }>(sql, [...values]);
    return found.rows[0]?.n ?? 0;
  }

  async #until<Value>(
    what: string,
    check: () => Promise<Value | undefined>,
    intervalMs = 50,
  ): Promise<Value> {
    const { signal } = this.#stage.stop;
    return await until(what, check, { deadlineMs, intervalMs, signal });
  }
}
