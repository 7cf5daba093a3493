/**
 * The whole line in a model world: producers, relays, broker, workers and operators, whose acts and
 * faults follow a schedule. After each act the world looks at what must always hold; in the end the
 * faults are over and everything has to come to its end.
 */

import { canTransition, isTerminal, type JobState } from "@waybill/core";
import { type Cursor, firstCursor } from "../../packages/relay/src/window-planner.ts";
import { type Claimed, type InboxRow, type Message, ModelJobs, type Timer } from "./model-jobs.ts";
import { type Limits, ModelOutbox, visibleIn, type Written } from "./model-outbox.ts";
import { ModelQueue } from "./world-broker.ts";
import { type JobRow, WorldRelay } from "./world-relay.ts";
import { limits as budgets, WorldWorker } from "./world-worker.ts";

/** What a job's handler does. */
export interface Script {
  readonly isTransactional: boolean;
  /** `fails` and `kills`: every time. */
  readonly behaviour: "works" | "fails" | "kills";
}

/** What a producer writes. */
export interface Enqueue {
  readonly session: number;
  readonly key: string | null;
  readonly bytes: number;
  /** Milliseconds until it expires; null: never. */
  readonly lifeMs: number | null;
  readonly script: Script;
}

/** What is counted for a job. */
interface Account extends Script {
  isCommitted: boolean;
  effects: number;
  starts: number;
  handedBack: number;
  takeovers: number;
  redrives: number;
  mayBeRedriven: boolean;
}

/** See the head of the file. */
export class World {
  readonly outbox = new ModelOutbox<JobRow>();
  readonly jobs: ModelJobs = new ModelJobs((rows) => {
    this.outbox.write(
      rows.map((row) => ({ ...row, id: row.message.id, ordering_key: null, bytes: 1 })),
      // Of a statement that began a while ago, its transaction too.
      this.outbox.sessions.find((session) => session < 0),
    );
  });
  readonly queue = new ModelQueue();
  relays: WorldRelay[] = [];
  workers: WorldWorker[] = [];
  readonly #limits: Limits;
  readonly #accounts = new Map<string, Account>();
  readonly #rowOf = new Map<string, InboxRow>();
  #epoch = 0;
  #cursor: Cursor = firstCursor;
  /** Rows of the outbox that are in a queue or parked, by seq. */
  readonly #safe = new Set<string>();
  readonly #published = new Set<string>();
  #boots = 0;
  #missingLocks: readonly string[] = [];

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  account(id: string): Account {
    const account = this.#accounts.get(id);
    if (account === undefined) throw new Error(`job ${id} exists nowhere`);
    return account;
  }

  relay(pick: number): WorldRelay | undefined {
    this.relays = this.relays.filter(({ isOver }) => !isOver);
    return this.relays[pick % Math.max(1, this.relays.length)];
  }

  worker(pick: number): WorldWorker | undefined {
    this.workers = this.workers.filter(({ isOver }) => !isOver);
    return this.workers[pick % Math.max(1, this.workers.length)];
  }

  /** Ids of the jobs that are committed. */
  get committed(): readonly string[] {
    return [...this.#accounts].filter(([, { isCommitted }]) => isCommitted).map(([id]) => id);
  }

  /** A producer writes a job; its transaction commits or does not. */
  enqueue({ session, key, bytes, lifeMs, script }: Enqueue): void {
    const id = `job-${this.#accounts.size + 1}`;
    const expiresAt = lifeMs === null ? null : this.jobs.nowMs + lifeMs;
    const message: Message = { id, dispatch: 1, death: 0, expiresAt };
    const row: JobRow = { id, ordering_key: key, bytes, kind: "job", message, failures: 0 };
    if (!this.outbox.insert(session, row)) return;
    this.#accounts.set(id, {
      ...script,
      isCommitted: false,
      effects: 0,
      starts: 0,
      handedBack: 0,
      takeovers: 0,
      redrives: 0,
      mayBeRedriven: false,
    });
  }

  endTransaction(session: number, commit: boolean): void {
    for (const { id, message } of this.outbox.end(session, commit)) {
      this.account(id).isCommitted = true;
      this.jobs.dispatched.push(message);
    }
  }

  startRelay(): void {
    this.#epoch += 1;
    const relay = new WorldRelay(this.#epoch, this.#cursor, this.#limits, {
      outbox: this.outbox,
      save: (epoch, cursor) => {
        if (epoch === this.#epoch) this.#save(cursor);
        return epoch === this.#epoch;
      },
      park: (epoch, row, reason, delayMs) => {
        if (epoch !== this.#epoch) return;
        this.#safe.add(row.seq);
        this.jobs.parkDispatch(row, reason, delayMs);
      },
      onPublish: (row) => this.#onPublish(row),
      store: (row) => {
        this.#safe.add(row.seq);
        (row.kind === "job" ? this.queue.ready : this.queue.dead).push(row.message);
      },
    });
    this.relays = [...this.relays, relay].slice(-3);
  }

  #save(cursor: Cursor): void {
    const published = visibleIn(cursor.snapshot ?? "1:1:");
    const passed = this.outbox.rows.find(({ tx, seq }) => published(tx) && !this.#safe.has(seq));
    if (passed !== undefined)
      throw new Error(`the cursor passes ${passed.id}, which is on its way`);
    this.#cursor = cursor;
  }

  #onPublish(row: Written<JobRow>): void {
    if (!this.account(row.id).isCommitted) throw new Error(`${row.id} was never committed`);
    const { ordering_key: key, seq } = row;
    if (this.#published.has(seq)) return;
    this.#published.add(seq);
    if (key === null) return;
    const { rows } = this.outbox;
    const skipped = rows
      .slice(0, rows.indexOf(rows.find((each) => each.seq === seq) ?? row))
      .find((each) => each.ordering_key === key && !this.#published.has(each.seq));
    if (skipped !== undefined) throw new Error(`${row.id} goes before ${skipped.id} of its key`);
  }

  startWorker(hasLock: boolean): void {
    if (this.workers.filter(({ isOver }) => !isOver).length >= 4) return;
    const worker = new WorldWorker(
      {
        jobs: this.jobs,
        queue: this.queue,
        newBootId: () => `worker-${(this.#boots += 1)}`,
        isTransactional: (id) => this.account(id).isTransactional,
        onStart: (id, row) => this.#onStart(id, row),
        onEffect: (id) => this.#onEffect(id),
        onHandedBack: (id) => (this.account(id).handedBack += 1),
        onWrite: (id, token) => {
          if (this.#rowOf.get(id)?.token !== token) throw new Error(`a late writer changes ${id}`);
        },
      },
      hasLock,
    );
    this.workers.push(worker);
  }

  #onStart(id: string, { crashes, attempt }: Claimed): void {
    this.account(id).starts += 1;
    if (crashes > budgets.crashBudget) throw new Error(`${id} runs after ${crashes} crashes`);
    if (attempt > budgets.maxAttempts) throw new Error(`${id} runs in attempt ${attempt}`);
  }

  #onEffect(id: string): void {
    const account = this.account(id);
    account.effects += 1;
    if (account.isTransactional && account.effects > 1) throw new Error(`two effects of ${id}`);
  }

  /** What the relay with the term does besides publishing. */
  keepHouse(what: "timers" | "leases" | "sweep"): void {
    if (what === "timers") this.jobs.fireTimers(100);
    else if (what === "sweep") this.#sweep();
    else this.#missingLocks = this.jobs.fireLeases(this.#missingLocks);
  }

  #sweep(): void {
    const { inbox, dispatched } = this.jobs;
    const known = dispatched.length;
    this.jobs.redispatchOrphans();
    for (const { id } of dispatched.slice(known)) {
      const owner = inbox.get(id)?.owner ?? null;
      if (this.jobs.isAlive(owner)) throw new Error(`${id} is dispatched again, ${owner} is alive`);
    }
  }

  /** An operator's act on one of the committed jobs. */
  operate(what: "cancel" | "retry" | "move back", pick: number): void {
    if (what === "move back") {
      const moved = this.queue.moveBack(pick);
      if (moved !== undefined) this.account(moved.id).mayBeRedriven = true;
      return;
    }
    const { committed } = this;
    const id = committed[pick % Math.max(1, committed.length)];
    if (id === undefined) return;
    if (what === "cancel") this.jobs.cancelJob(id);
    else if (this.jobs.retryJob(id)) this.account(id).mayBeRedriven = true;
  }

  /** Does something, and looks at what must hold before and after. */
  act(act: () => void): void {
    const { inbox, timers } = this.jobs;
    const isAlive = (owner: string | null): boolean => this.jobs.isAlive(owner);
    const living = [...inbox].filter(([, row]) => row.state === "running" && isAlive(row.owner));
    const leases = [...timers].filter(
      ([, { reason, owner }]) => reason === "lease" && isAlive(owner),
    );
    act();
    for (const [id, { owner }] of living) {
      const after = inbox.get(id);
      if (after?.state === "running" && after.owner !== owner) {
        throw new Error(`${id} is taken from ${owner}, which is alive, to ${after.owner}`);
      }
    }
    for (const [place, { owner, message }] of leases) {
      if (timers.get(place)?.reason === "held" && inbox.get(message.id)?.owner === owner) {
        throw new Error(`the lease of ${message.id} fires and ${owner} is alive`);
      }
    }
    for (const [id, row] of inbox) this.#checkRow(id, row);
  }

  #checkRow(id: string, row: InboxRow): void {
    const before = this.#rowOf.get(id);
    if (before === row) return;
    this.#rowOf.set(id, row);
    const account = this.account(id);
    if (!account.isCommitted) throw new Error(`${id} was never committed`);
    if (before !== undefined) this.#checkStep(id, before, row);
    const { starts, handedBack, takeovers, redrives } = account;
    const allowed = budgets.maxAttempts * (1 + redrives) + handedBack + takeovers;
    if (starts > allowed) throw new Error(`${id} has run ${starts} times, ${allowed} are allowed`);
  }

  #checkStep(id: string, before: InboxRow, row: InboxRow): void {
    const account = this.account(id);
    if (row.state !== before.state && !canTransition(before.state, row.state)) {
      throw new Error(`${id} goes from ${before.state} to ${row.state}`);
    }
    if (before.state === "failed" && row.state !== "failed") {
      if (!account.mayBeRedriven) throw new Error(`${id} leaves its end and nobody asked for it`);
      account.redrives += 1;
    }
    if (row.crashes > before.crashes) account.takeovers += 1;
    if (row.token < before.token) throw new Error(`${id} gets an older token`);
    if (row.attempt > before.attempt + 1) throw new Error(`${id} skips attempts`);
  }

  /** The faults are over: every committed job has to end. Returns what is wrong with their ends. */
  drain(): readonly string[] {
    for (const session of this.outbox.sessions) this.endTransaction(session, true);
    for (const worker of this.workers) worker.isFrozen = false;
    this.startRelay();
    this.relays = this.relays.slice(-1);
    for (let rounds = 0; !this.#isDone(); rounds += 1) {
      if (rounds > 300) throw new Error(`not done: ${this.#leftover()}`);
      this.jobs.nowMs += 1_000;
      this.#round();
    }
    return this.committed.flatMap((id) => this.#wrongEnd(id) ?? []);
  }

  #round(): void {
    this.startWorker(true);
    for (const what of ["timers", "leases", "sweep"] as const) this.act(() => this.keepHouse(what));
    this.act(() => this.relays[0]?.serve());
    for (const worker of this.workers) {
      this.act(() => worker.heartbeat());
      this.act(() => worker.lookForRequests());
      for (let n = 0; n < 4; n += 1) this.act(() => worker.receive(0));
      for (let n = 0; n < 4; n += 1) this.act(() => worker.claim(0, "ok", false));
      // Whatever is done with the first job, the next one moves up; so each has its turn at last.
      for (let n = worker.runs; n > 0; n -= 1) {
        this.act(() => worker.finishLease(n - 1));
        this.act(() => this.runHandler(worker, n - 1, "returns", "ok"));
        if (worker.isOver) break;
        this.act(() => worker.settle(n - 1, "ok"));
      }
      worker.retire();
    }
    this.workers = this.workers.filter(({ isOver }) => !isOver);
  }

  /** A handler comes back as its script says; `how` is for one that works. */
  runHandler(worker: WorldWorker, pick: number, ...[how, commit]: HandlerComesBack): void {
    const id = worker.runningAt(pick);
    if (id === undefined) return;
    const { behaviour } = this.account(id);
    if (behaviour === "kills") worker.kill();
    else worker.end(pick, behaviour === "fails" ? "throws" : how, commit);
  }

  #isDone(): boolean {
    const { snapshot, window } = this.#cursor;
    return (
      window === null &&
      this.queue.ready.length === 0 &&
      [...this.jobs.timers.values()].every((timer) => this.#isIdleLease(timer)) &&
      this.workers.every(({ isIdle }) => isIdle) &&
      this.outbox.rows.every(({ tx }) => visibleIn(snapshot ?? "1:1:")(tx)) &&
      this.committed.every((id) => isTerminal(this.#stateOf(id)))
    );
  }

  /** A lease that nobody took back when its job ended elsewhere: it fires with its owner, as a duplicate. */
  #isIdleLease({ reason, owner, message }: Timer): boolean {
    return reason === "lease" && this.jobs.isAlive(owner) && isTerminal(this.#stateOf(message.id));
  }

  #stateOf(id: string): JobState {
    return this.jobs.inbox.get(id)?.state ?? "queued";
  }

  #leftover(): string {
    const open = this.committed.filter((id) => !isTerminal(this.#stateOf(id)));
    return JSON.stringify({
      jobs: open.map((id) => [id, this.jobs.inbox.get(id)]),
      ready: this.queue.ready,
      timers: [...this.jobs.timers.values()],
      cursor: this.#cursor,
    });
  }

  #wrongEnd(id: string): string | undefined {
    const state = this.#stateOf(id);
    const { effects, isTransactional } = this.account(id);
    if (state === "succeeded" && effects === 0) return `${id} ended without its effect`;
    if (isTransactional && state !== "succeeded" && effects > 0) return `${id} is ${state}: effect`;
    const deaths = this.jobs.inbox.get(id)?.deaths;
    const letter = this.queue.dead.find((dead) => dead.id === id && dead.death === deaths);
    return state === "failed" && letter === undefined ? `${id} has no dead letter` : undefined;
  }
}

type HandlerComesBack =
  Parameters<WorldWorker["end"]> extends [number, ...infer Rest] ? Rest : never;
