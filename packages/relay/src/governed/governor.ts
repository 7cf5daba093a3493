/**
 * Dispatches the jobs of governed queues, as many as the workers can start and the limits allow. It holds
 * the scheduler in memory and writes in rounds: one statement puts what was read from the outbox into slots
 * or the backlog and gives slots to what waited, guarded by the term and by the revision of the settings.
 * Only then it is published. So the slots in the database are all that is at the broker or with workers, at
 * every moment; a relay that takes over begins with them.
 */

import { type Logger, waybillHeaders } from "@waybill/core";
import type { BacklogRow, GovernorStore, OutboxRow, Round } from "@waybill/postgres";
import { TermLostError } from "../cursor-saver.ts";
import type { Dispatcher } from "../dispatcher.ts";
import type { RelayFailpointHook } from "../internals.ts";
import type { LedgerPage } from "../page-ledger.ts";
import { isVisible, parseSnapshot, type Snapshot } from "../snapshot.ts";
import { Cadence } from "./cadence.ts";
import { FreedReader } from "./freed-reader.ts";
import { dispatchText, readJobOf, recordOf, refText, type Ref } from "./job-forms.ts";
import { askUnrenewed, knownDispatches } from "./renewals.ts";
import { Schedules, waitingJobOf } from "./schedules.ts";
import { StartsReader } from "./starts-reader.ts";
import type { WaitingJob } from "./waiting-job.ts";

/** Options of {@link Governor}. */
export interface GovernorOptions {
  readonly store: GovernorStore;
  /** Does its work in one snapshot. */
  readonly inSnapshot: <T>(work: (store: GovernorStore) => Promise<T>) => Promise<T>;
  readonly epoch: string;
  readonly dispatcher: Pick<Dispatcher, "addSlotted" | "settleGoverned">;
  /** Sees to it that the queues of what is published exist. */
  readonly ensure: (queues: Iterable<string>) => Promise<void>;
  readonly failpoint: RelayFailpointHook;
  readonly logger: Logger;
}

/** Jobs that one round gives slots to. */
const roundMax = 1_000;
/** Rows of each lane that are read at the start of a term. */
const firstRows = 20;
/** Milliseconds between two looks at the settings, and at what the workers can run. */
const settingsMs = 400;
const capacityMs = 250;
const tidyMs = 5_000;
/** Milliseconds until a row of the backlog that was not there is looked for again. */
const doubtMs = 1_000;
/** Milliseconds until a row whose slot somebody's transaction holds is looked at again. */
const laterMs = 200;
/** Places of one term: the number of the term comes first, so that later terms continue behind. */
const placesOfTerm = 2 ** 32;

/** See the head of the file. */
export class Governor {
  readonly #options: GovernorOptions;
  readonly #schedules = new Schedules();
  readonly #freed: FreedReader;
  readonly #starts: StartsReader;
  readonly #cadence = new Cadence();
  #place: number;
  #revision = "";
  #flow = "";
  #before: Snapshot | undefined;
  /** Rows that were read and are neither in the backlog nor in a slot. */
  #intake: { readonly rows: readonly OutboxRow[]; readonly page: LedgerPage }[] = [];
  #unwritten: WaitingJob[] = [];
  #renewing: WaitingJob[] = [];
  #refused: Ref[] = [];
  readonly #doubtful = new Map<number, Ref[]>();
  #isStopping = false;

  constructor(options: GovernorOptions) {
    this.#options = options;
    this.#place = Number(options.epoch) * placesOfTerm;
    this.#freed = new FreedReader(options.store, options.epoch);
    this.#starts = new StartsReader(options.store, this.#schedules);
  }

  /** True where the row is not to be published as it comes. */
  governs(row: OutboxRow): boolean {
    return row.kind === "job" && row.queue !== null && this.#schedules.governs(row.queue);
  }

  /** Takes rows of governed queues, in the order of reading; the page waits for them. */
  take(rows: readonly OutboxRow[], page: LedgerPage): void {
    this.#intake.push({ rows, page });
    this.#cadence.wake();
  }

  /** Jobs in slots that the broker did not take, and that wait in the timers now. */
  refuse(rows: readonly OutboxRow[]): void {
    for (const { id, queue } of rows) if (queue !== null) this.#refused.push({ id, queue });
    this.#cadence.wake();
  }

  /** Gives no more slots: what is still read goes to the backlog. */
  stop(): void {
    this.#isStopping = true;
    this.#cadence.wake();
  }

  /** Begins a term with what is in the database, all of it of one moment. */
  async begin(): Promise<void> {
    const { inSnapshot, epoch, dispatcher, ensure, logger } = this.#options;
    const nowMs = performance.now();
    const found = await inSnapshot(async (store) => {
      const governance = await store.governance();
      // Inside: a slot that these news are about must not be counted as well.
      await store.freed(epoch, "0");
      const slots = await store.slots();
      const lanes = await store.lanes(firstRows);
      return {
        governance,
        slots,
        lanes,
        unclaimed: slots.length > 0 ? await store.unclaimedSlots() : [],
      };
    });
    const { governance, slots, lanes, unclaimed } = found;
    this.#revision = governance.revision;
    this.#flow = governance.flow;
    this.#before = parseSnapshot(governance.snapshot);
    this.#schedules.apply(governance, nowMs);
    this.#schedules.load(slots, lanes, firstRows, nowMs);
    if (unclaimed.length === 0) return;
    logger.info({ jobs: unclaimed.length }, "jobs of slots published again");
    await ensure(new Set(unclaimed.flatMap(({ queue }) => queue ?? [])));
    dispatcher.addSlotted(unclaimed, this.#flow);
  }

  /**
   * Dispatches until the signal.
   *
   * @throws what the database says, or TermLostError
   */
  async run(signal: AbortSignal): Promise<void> {
    let settingsAtMs = 0;
    let capacityAtMs = 0;
    let tidyAtMs = performance.now() + tidyMs;
    while (!signal.aborted) {
      const nowMs = performance.now();
      if (nowMs >= settingsAtMs) {
        await this.#readSettings();
        settingsAtMs = performance.now() + settingsMs;
      }
      if (nowMs >= capacityAtMs && this.#schedules.any) {
        this.#schedules.applyCapacity(await this.#options.store.capacity());
        capacityAtMs = performance.now() + capacityMs;
      }
      if (nowMs >= tidyAtMs) {
        await this.#tidy();
        tidyAtMs = performance.now() + tidyMs;
      }
      const isBusy = await this.#round();
      const idleAtMs = Math.min(settingsAtMs, this.#schedules.any ? capacityAtMs : Infinity);
      await this.#cadence.pause(isBusy, this.#nextAtMs(idleAtMs), signal);
    }
  }

  #nextAtMs(idleAtMs: number): number {
    const nowMs = performance.now();
    const opensAtMs = this.#isStopping ? Infinity : this.#schedules.opensAtMs(nowMs);
    const freedAtMs = this.#schedules.any
      ? this.#freed.dueAtMs(this.#schedules.hasSlots)
      : Infinity;
    return Math.min(idleAtMs, opensAtMs, freedAtMs, this.#starts.dueAtMs);
  }

  async #readSettings(): Promise<void> {
    const governance = await this.#options.store.governance();
    if (governance.revision === this.#revision) return;
    this.#revision = governance.revision;
    this.#schedules.apply(governance, performance.now());
    // What operators did to waiting jobs before they changed the settings counts for the next job that goes.
    this.#freed.hurry();
  }

  async #tidy(): Promise<void> {
    if (!this.#schedules.any) return;
    const healed = await this.#options.store.healSlots();
    if (healed > 0) this.#options.logger.error({ slots: healed }, "slots of ended jobs given back");
    this.#schedules.tidy(performance.now());
  }

  /** One round; true if there may be more to do at once. */
  async #round(): Promise<boolean> {
    const pages = this.#intake.splice(0);
    // Of a retry that was read the news has the end of its attempt; first attempts need not wait for any.
    await this.#readNews(pages.some(({ rows }) => rows.some(({ dispatch }) => dispatch > 1)));
    await this.#starts.read();
    // Before rows are added: a lane whose rest was read has them all, and what comes behind is kept in memory.
    await this.#refill();
    for (const { rows, page } of pages) await this.#feed(rows, page);
    const nowMs = performance.now();
    const picked = this.#isStopping ? [] : this.#schedules.pick(roundMax, nowMs);
    if (
      picked.length + this.#unwritten.length + this.#renewing.length + this.#refused.length ===
      0
    ) {
      return this.#intake.length > 0;
    }
    await this.#write(picked);
    return picked.length === roundMax || this.#intake.length > 0;
  }

  async #readNews(atOnce: boolean): Promise<void> {
    if (!this.#schedules.any) return;
    const nowMs = performance.now();
    const changed: Ref[] = [];
    if (atOnce || this.#freed.dueAtMs(this.#schedules.hasSlots) <= nowMs) {
      changed.push(...this.#schedules.news(await this.#freed.read(), nowMs));
    }
    for (const [atMs, refs] of this.#doubtful) {
      if (atMs > nowMs) continue;
      this.#doubtful.delete(atMs);
      changed.push(...refs);
    }
    if (changed.length === 0) return;
    const rows = await this.#options.store.waitingJobs(changed);
    const byRef = new Map(rows.map((row) => [refText(row), row]));
    for (const ref of changed) {
      const row: BacklogRow | undefined = byRef.get(refText(ref));
      const job = row === undefined ? null : waitingJobOf(row);
      this.#schedules.of(ref.queue, nowMs).change(ref.id, job, nowMs);
    }
  }

  /** Puts rows of the outbox into the scheduler. */
  async #feed(rows: readonly OutboxRow[], page: LedgerPage): Promise<void> {
    const nowMs = performance.now();
    const known = await this.#known(rows);
    const pending = new Set([...this.#unwritten, ...this.#renewing].map(refText));
    const settled: LedgerPage[] = [];
    for (const row of rows) {
      const job = readJobOf(row, page, (this.#place += 1));
      const ref = refText(job);
      if (pending.has(ref)) {
        // Another copy: what becomes of it depends on the first, and a round takes a job once.
        this.#intake.push({ rows: [row], page });
        continue;
      }
      pending.add(ref);
      const queue = this.#schedules.of(job.queue, nowMs);
      const slot = queue.slotOf(job.id);
      const waiting = queue.waitingOf(job.id);
      const isOld = slot !== undefined && slot.dispatch > job.dispatch;
      const isKnown =
        known.has(dispatchText(job)) || (waiting !== undefined && waiting.dispatch >= job.dispatch);
      if (waiting !== undefined && !isKnown) {
        // A copy of an attempt that is over: this one takes its place, when it is in the backlog.
        if (waiting.row !== undefined) this.#intake.push({ rows: [row], page });
        else {
          queue.change(job.id, null, nowMs);
          this.#unwritten.push({ ...job, place: waiting.place });
        }
      } else if (slot?.waiting === false && !isOld) {
        // A copy that a worker had put aside may be all that is left of its job.
        this.#renewing.push(job);
      } else if (isOld || isKnown) {
        settled.push(page);
      } else if (slot === undefined) {
        queue.add(job, nowMs);
        this.#unwritten.push(job);
      } else {
        // Its turn comes when it is in the backlog, at the place that it had.
        this.#unwritten.push({ ...job, place: slot.place });
      }
    }
    if (settled.length > 0) this.#options.dispatcher.settleGoverned(settled);
  }

  /** Asked for are rows of before the term, and of heads that wait: a copy, or what the broker did not take. */
  async #known(rows: readonly OutboxRow[]): Promise<ReadonlySet<string>> {
    const { store } = this.#options;
    const before = this.#before;
    const nowMs = performance.now();
    const old = rows.filter((row) => {
      if (row.headers?.[waybillHeaders.death] !== undefined) return false;
      const slot = this.#schedules.of(row.queue ?? "", nowMs).slotOf(row.id);
      if (slot?.waiting === true && slot.dispatch === row.dispatch) return true;
      return before !== undefined && isVisible(BigInt(row.tx), before);
    });
    return await knownDispatches(store, old);
  }

  async #refill(): Promise<void> {
    // Of a lane that is cut, what is not written yet is nowhere else: it would be missed.
    if (this.#unwritten.length > 0) return;
    const lanes = this.#schedules.cutLanes();
    if (lanes.length === 0) return;
    const rows = await this.#options.store.lane(lanes);
    this.#schedules.refill(lanes, rows, performance.now());
  }

  async #write(picked: readonly WaitingJob[]): Promise<void> {
    const { store, epoch, dispatcher, ensure, failpoint } = this.#options;
    const unwritten = this.#unwritten;
    const direct = new Set(picked.filter(({ row }) => row !== undefined));
    const taken = picked.filter(({ row }) => row === undefined);
    const renewed = this.#renewing;
    const refusals = this.#refused;
    this.#refused = [];
    const refused = refusals.flatMap((ref) => this.#slotRef(ref));
    const round: Round = {
      read: unwritten.map((job) => recordOf(job, direct.has(job))),
      taken,
      renewed,
      refused,
    };
    const result = await store.round(epoch, this.#revision, round);
    failpoint("relay.afterRound");
    if (!result.held) throw new TermLostError();
    const nowMs = performance.now();
    if (!result.current) {
      this.#refused.unshift(...refusals);
      for (const job of picked.toReversed())
        this.#schedules.of(job.queue, nowMs).unpick(job, true, nowMs);
      await this.#readSettings();
      return;
    }
    const sent = new Map(result.rows.map((row) => [refText(row), row]));
    const outgoing = [...direct].flatMap(({ row }) => row ?? []).concat(result.rows);
    this.#unwritten = [];
    this.#renewing = [];
    this.#settleWritten(unwritten, direct, nowMs);
    this.#settleTaken(taken, sent, nowMs);
    await this.#settleRenewed(renewed, sent);
    for (const { id, queue } of refused) this.#refusedSlot(id, queue, nowMs);
    if (outgoing.length === 0) return;
    await ensure(new Set(outgoing.flatMap(({ queue }) => queue ?? [])));
    dispatcher.addSlotted(outgoing, this.#flow);
  }

  #slotRef({ id, queue }: Ref): { id: string; queue: string; dispatch: number }[] {
    const slot = this.#schedules.of(queue, performance.now()).slotOf(id);
    return slot === undefined ? [] : [{ id, queue, dispatch: slot.dispatch }];
  }

  #refusedSlot(id: string, name: string, nowMs: number): void {
    const queue = this.#schedules.of(name, nowMs);
    if (queue.slotOf(id)?.orderingKey === null) queue.ended(id, nowMs);
    else queue.waits(id, nowMs);
  }

  /** What was read is in the database now, and its pages need not wait for it. */
  #settleWritten(
    jobs: readonly WaitingJob[],
    direct: ReadonlySet<WaitingJob>,
    nowMs: number,
  ): void {
    const pages: LedgerPage[] = [];
    for (const job of jobs) {
      if (job.page !== undefined) pages.push(job.page);
      job.page = undefined;
      if (direct.has(job)) continue;
      job.row = undefined;
      const queue = this.#schedules.of(job.queue, nowMs);
      // One that was not to go before it is there, or was behind what is in memory.
      if (queue.waitingOf(job.id) === undefined) queue.change(job.id, job, nowMs);
    }
    if (pages.length > 0) this.#options.dispatcher.settleGoverned(pages);
  }

  /** Rows that were not there: cancelled, put off, or in the hands of an operator's transaction. */
  #settleTaken(
    jobs: readonly WaitingJob[],
    sent: ReadonlyMap<string, OutboxRow>,
    nowMs: number,
  ): void {
    const missing = jobs.filter((job) => !sent.has(refText(job)));
    if (missing.length === 0) return;
    for (const job of missing) this.#schedules.of(job.queue, nowMs).unpick(job, false, nowMs);
    const atMs = nowMs + doubtMs;
    this.#doubtful.set(atMs, [...(this.#doubtful.get(atMs) ?? []), ...missing]);
  }

  /** Only a job whose slot is gone, though its attempt is not over, waits like any other. */
  async #settleRenewed(
    jobs: readonly WaitingJob[],
    sent: ReadonlyMap<string, OutboxRow>,
  ): Promise<void> {
    const { store, dispatcher } = this.#options;
    const done = jobs.filter((job) => sent.has(refText(job)));
    for (const { job, slot, isOver } of await askUnrenewed(store, jobs, sent)) {
      const nowMs = performance.now();
      const queue = this.#schedules.of(job.queue, nowMs);
      const { row, page } = job;
      if (slot === "gone") queue.ended(job.id, nowMs);
      if (slot === "waiting") queue.waits(job.id, nowMs);
      if (isOver) done.push(job);
      else if (row !== undefined && page !== undefined) {
        // The news of the slot come first: read later, they would be those of the job's next one.
        this.#freed.hurry();
        setTimeout(() => this.take([row], page), slot === "gone" ? 0 : laterMs).unref();
      }
    }
    const pages = done.flatMap(({ page }) => page ?? []);
    if (pages.length > 0) dispatcher.settleGoverned(pages);
  }
}
