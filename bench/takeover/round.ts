import type { Pool } from "pg";
import { until } from "../../scripts/stage/until.ts";
import {
  enqueueJobs,
  giveWord,
  type RunningJob,
  runningJobs,
  succeeded,
  whereabouts,
} from "./board.ts";
import type { Consumers } from "./consumers.ts";
import type { Member } from "./crew.ts";
import type { Death } from "./figures.ts";

/** How long anything may take that is not measured, and that a measured takeover may exceed its lease. */
const deadlineMs = 60_000;
const jobsOfWorker = 4;

/** What rounds work with. */
export interface RoundGround {
  readonly pool: Pool;
  readonly consumers: Consumers;
  readonly leaseMs: number;
  readonly signal: AbortSignal;
  /** Ids of all jobs of all rounds. */
  readonly ids: string[];
}

/** Jobs that run side by side in all workers, crash at most once, and end when they are told to. */
export class Round {
  readonly #ground: RoundGround;
  readonly #number: number;
  readonly #ids: string[] = [];

  constructor(ground: RoundGround, number: number) {
    this.#ground = ground;
    this.#number = number;
  }

  /** Enqueues, when all consume, until each of `victims` runs some; resolves when all run as their workers' kind has it. */
  async occupy(members: readonly Member[], victims: readonly Member[]): Promise<void> {
    const { consumers } = this.#ground;
    // One that was just woken, or just started, has its consumer a little later than its presence.
    await this.#until("all workers to consume", deadlineMs, async () =>
      (await consumers.count()) >= members.length ? true : undefined,
    );
    for (let tries = 1; ; tries += 1) {
      await this.#enqueue(tries === 1 ? jobsOfWorker * members.length : members.length);
      const jobs = await this.#settled(members);
      const idle = victims.filter(({ child }) => jobs.every(({ pid }) => pid !== child.pid));
      if (idle.length === 0) return;
      if (tries === 10) {
        const names = idle.map(({ child }) => child.name).join(", ");
        throw new Error(`Workers get no jobs although others do: ${names}.`);
      }
    }
  }

  async #enqueue(count: number): Promise<void> {
    const { pool, ids } = this.#ground;
    const some = await enqueueJobs(pool, this.#number, count);
    this.#ids.push(...some);
    ids.push(...some);
  }

  /** The jobs, when all of them run and those that are to lose their deliveries have lost them. */
  async #settled(members: readonly Member[]): Promise<readonly RunningJob[]> {
    const { pool } = this.#ground;
    const leasing = new Set(
      members.filter(({ kind }) => kind === "leased").map(({ child }) => child.pid),
    );
    return await this.#until("all jobs of a round to run", deadlineMs, async () => {
      const jobs = await runningJobs(pool, this.#ids);
      const ready = jobs.filter(({ pid, leased }) => leased || !leasing.has(pid));
      return ready.length === this.#ids.length ? jobs : undefined;
    });
  }

  /** What a worker runs now. */
  async jobsOf({ child }: Member): Promise<readonly RunningJob[]> {
    const jobs = await runningJobs(this.#ground.pool, this.#ids);
    return jobs.filter(({ pid }) => pid === child.pid);
  }

  /** Waits until all these jobs run elsewhere; `diedAt` is when their worker died. */
  async takenOver(member: Member, jobs: readonly RunningJob[], diedAt: number): Promise<Death> {
    const { pool, leaseMs } = this.#ground;
    const owners = new Map(jobs.map(({ id, owner }) => [id, owner]));
    const what = `the jobs of ${member.child.name} to start elsewhere`;
    const others = await this.#until(what, leaseMs + deadlineMs, async () => {
      const now = await runningJobs(pool, [...owners.keys()], diedAt);
      const moved = now.filter(({ id, owner }) => owner !== owners.get(id));
      return moved.length === jobs.length ? moved : undefined;
    });
    const dispatched = others.flatMap(({ dispatchedAt }) => dispatchedAt ?? []);
    return {
      kind: member.kind,
      jobs: jobs.length,
      takeoverMs: Math.max(...others.map(({ startedAt }) => startedAt)) - diedAt,
      dispatchedMs: dispatched.length === 0 ? undefined : Math.max(...dispatched) - diedAt,
    };
  }

  /** Lets the jobs of these workers go on. */
  async giveWord(members: readonly Member[]): Promise<void> {
    await giveWord(
      this.#ground.pool,
      this.#number,
      members.map(({ child }) => child.pid),
    );
  }

  /** Waits until all jobs have succeeded. */
  async end(): Promise<void> {
    const { pool } = this.#ground;
    await this.#until("all jobs of a round to succeed", deadlineMs, async () =>
      (await succeeded(pool, this.#ids)) === this.#ids.length ? true : undefined,
    );
  }

  async #until<Value>(
    what: string,
    limitMs: number,
    check: () => Promise<Value | undefined>,
  ): Promise<Value> {
    const { pool, signal } = this.#ground;
    try {
      return await until(what, check, { deadlineMs: limitMs, signal });
    } catch (error) {
      if (signal.aborted || !(error instanceof Error)) throw error;
      const places = await whereabouts(pool, this.#ids);
      throw new Error(`${error.message} The jobs of the round:${places}`, { cause: error });
    }
  }
}
