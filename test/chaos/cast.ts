/** The processes of a run: as many of each role as there should be, whatever is done to them. */

import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isAlive } from "../../scripts/services/processes.ts";
import { chance } from "../../scripts/stage/chance.ts";
import {
  type Child,
  type Children,
  createChildren,
  type Environment,
  type ProcessFailure,
} from "../../scripts/stage/children.ts";
import type { Chronicle } from "./chronicle.ts";
import { type FailpointPlan, reachedPattern } from "./failpoint.ts";
import type { Role } from "./faults.ts";
import type { Field } from "./field.ts";
import { failpointFor } from "./schedule.ts";

/** A process that is or was there. */
export interface Member {
  readonly role: Role;
  readonly name: string;
  readonly child: Child;
  /** When it was seen to be gone after a SIGKILL; undefined: it was not killed. */
  killedMs: number | undefined;
  readonly freezes: { readonly fromMs: number; toMs: number | undefined }[];
  /** It is at work: a relay connected, a worker consumes, a producer produces. */
  isReady: boolean;
  /** It stands still at a failpoint. */
  hangs: boolean;
  /** It has failed at a failpoint, and may end because of it. */
  mayEnd: boolean;
}

/** How many processes of each role there are. */
export const sizes: Readonly<Record<Role, number>> = { producer: 2, relay: 2, worker: 3 };

/** How long a worker owns its jobs after its last heartbeat, in milliseconds. */
export const leaseMs = 6_000;
/** How long a process hangs at a failpoint before it is killed, in milliseconds. */
const hangMs = [500, 5_000] as const;
/** A process that is told to stop is killed after a while (children.ts); nobody takes as long. */
const stopPatienceMs = 14_000;

/** Part of the processes that are hit though they may still be starting. */
const starting = 0.15;

/** What a process says when it is at work. */
const readyPattern =
  /^ready$|"msg":"(relay leads|another relay leads, standing by|consumer started)"/;

const scripts: Readonly<Record<Role, URL>> = {
  producer: new URL("producer.ts", import.meta.url),
  relay: new URL("relay.ts", import.meta.url),
  worker: new URL("worker.ts", import.meta.url),
};

/** What a cast is made with. */
export interface CastOptions {
  readonly field: Field;
  readonly chronicle: Chronicle;
  readonly seed: number;
  /** Of all logs, ledgers and run logs. */
  readonly directory: string;
  readonly logLevel: string;
}

/** See the head of the file. */
export class Cast implements AsyncDisposable {
  readonly #options: CastOptions;
  readonly #children: Children;
  readonly #all = new Map<string, Member>();
  readonly #present = new Set<Member>();
  readonly #started: Record<Role, number> = { producer: 0, relay: 0, worker: 0 };
  /** Failpoints go off until then. */
  #armedUntilMs = 0;
  #isOver = false;
  /** What processes did that they must not do. */
  readonly failures: string[] = [];

  constructor(options: CastOptions) {
    this.#options = options;
    this.#children = createChildren((failure) => this.#onExit(failure), options.directory);
  }

  /** Starts everybody of a role. */
  open(role: Role): void {
    for (let n = 0; n < sizes[role]; n += 1) this.#start(role);
  }

  /** Processes that start from now on may have failpoints, which go off until this time. */
  arm(untilMs: number): void {
    this.#armedUntilMs = untilMs;
  }

  /** All that there are or were, by name. */
  get members(): ReadonlyMap<string, Member> {
    return this.#all;
  }

  /**
   * One of a role that is at work, or starts: one in so many picks takes any. Waits for one; else a machine that starts
   * processes more slowly than they are killed would never do a job.
   */
  async pick(role: Role, pick: number, signal: AbortSignal): Promise<Member> {
    const takesAny = (pick * 1_000) % 1 < starting;
    for (;;) {
      const some = [...this.#present].filter(
        (member) =>
          member.role === role &&
          (member.isReady || takesAny) &&
          !member.hangs &&
          !isFrozen(member),
      );
      const one = some[Math.floor(pick * some.length)];
      if (one !== undefined) return one;
      await delay(50, undefined, { signal });
    }
  }

  /** SIGKILL; at the return the process runs nothing any more, and another one has been started. */
  kill(member: Member): void {
    if (!this.#present.delete(member)) return;
    member.child.kill().catch(() => undefined);
    // Not left to an event, which would come later: what overlaps with a killed run counts.
    while (isAlive(member.child.pid));
    this.#dead(member);
  }

  /** SIGSTOP, and SIGCONT after a time. */
  freeze(member: Member, ms: number): void {
    const freeze: Member["freezes"][number] = { fromMs: Date.now(), toMs: undefined };
    const isWorker = member.role === "worker";
    const calm = isWorker ? this.#options.chronicle.disturb("freeze") : () => undefined;
    member.child.freeze();
    member.freezes.push(freeze);
    setTimeout(() => {
      calm();
      freeze.toMs = Date.now();
      member.child.thaw();
    }, ms);
  }

  /** SIGTERM, as at a deploy: another one starts at once. */
  async restart(member: Member): Promise<void> {
    if (!this.#present.delete(member)) return;
    this.#start(member.role);
    await member.child.stop();
  }

  /** Nobody fails any more; resolves when nobody is frozen or hangs. */
  async calm(): Promise<void> {
    // Until then a failpoint may be reached, and a moment later it is known.
    await delay(Math.max(0, this.#armedUntilMs - Date.now()) + 500);
    this.#armedUntilMs = 0;
    for (const member of this.#present) if (member.hangs) this.kill(member);
    while ([...this.#present].some(isFrozen)) await delay(100);
  }

  /** Ends everybody of a role, or everybody, by SIGTERM; whoever does not listen is a failure, since all is calm. */
  async close(role?: Role): Promise<void> {
    const leaving = [...this.#present].filter((one) => role === undefined || one.role === role);
    for (const member of leaving) this.#present.delete(member);
    await Promise.all(leaving.map((member) => this.#stop(member)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    await Promise.all([...this.#present].map(({ child }) => child.kill()));
    await this.#children[Symbol.asyncDispose]();
  }

  async #stop(member: Member): Promise<void> {
    const startedAt = performance.now();
    await member.child.stop();
    if (performance.now() - startedAt > stopPatienceMs) {
      this.failures.push(`The ${member.name} did not stop within ${stopPatienceMs / 1_000} s.`);
    }
  }

  #dead(member: Member): void {
    member.killedMs = Date.now();
    this.#options.chronicle.counts.process += 1;
    this.#start(member.role);
  }

  #onExit(failure: ProcessFailure): void {
    const member = this.#all.get(failure.child);
    if (member === undefined || this.#isOver || !this.#present.delete(member)) return;
    this.#options.chronicle.note(failure.message.split("\n")[0] ?? "");
    if (!member.mayEnd) this.failures.push(failure.message);
    this.#dead(member);
  }

  #start(role: Role): void {
    if (this.#isOver) return;
    const { seed } = this.#options;
    const n = (this.#started[role] += 1);
    const name = `${role}-${n}`;
    const untilMs = this.#armedUntilMs;
    const plan = untilMs > Date.now() ? failpointFor(seed, role, n, untilMs) : undefined;
    const child = this.#children.start(name, [scripts[role]], this.#environment(role, name, plan));
    const member: Member = {
      role,
      name,
      child,
      killedMs: undefined,
      freezes: [],
      isReady: false,
      hangs: false,
      mayEnd: false,
    };
    this.#all.set(name, member);
    this.#present.add(member);
    child.line(readyPattern).then(
      () => (member.isReady = true),
      () => undefined,
    );
    if (plan !== undefined) this.#watch(member, plan);
  }

  #environment(role: Role, name: string, plan: FailpointPlan | undefined): Environment {
    const { field, seed, directory, logLevel } = this.#options;
    const { ways, ground, secret } = field;
    const databaseUrl = new URL(ways[`${role}s to database`].url(ground.databaseUrl));
    databaseUrl.search = "";
    return {
      NAME: name,
      DATABASE_URL: databaseUrl.href,
      LOG_LEVEL: logLevel,
      NODE_COMPILE_CACHE: join(directory, "compile-cache"),
      ...(role === "producer"
        ? {
            LEDGER: join(directory, `${name}.ledger`),
            SECRET: secret,
            SEED: String(Math.floor(chance(seed, name) * 2 ** 32)),
          }
        : { RABBITMQ_URL: ways[`${role}s to broker`].url(ground.rabbitmqUrl) }),
      ...(role === "worker"
        ? { RUNS: join(directory, `${name}.runs`), LEASE_MS: String(leaseMs) }
        : {}),
      ...(plan === undefined ? {} : { FAILPOINT: JSON.stringify(plan) }),
    };
  }

  /** What happens at a failpoint is known by what the process says. */
  #watch(member: Member, { point, action }: FailpointPlan): void {
    member.child.line(reachedPattern).then(
      () => {
        this.#options.chronicle.note(`${member.name} reached ${point}: ${action}`);
        member.mayEnd = true;
        if (action !== "hang") return;
        member.hangs = true;
        const [from, to] = hangMs;
        const ms = from + chance(this.#options.seed, member.name, "hangs") * (to - from);
        setTimeout(() => this.kill(member), ms);
      },
      () => undefined,
    );
  }
}

function isFrozen({ freezes }: Member): boolean {
  return freezes.some(({ toMs }) => toMs === undefined);
}
