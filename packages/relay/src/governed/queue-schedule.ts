/**
 * One governed queue in the relay's memory: what waits, what has a slot, and who goes next. Pure: time
 * comes in as an argument, and nothing here reads or writes anything. The database is the truth; after a
 * takeover all of this is made anew from it.
 */

import TinyQueue from "tinyqueue";
import type { BreakerViews } from "./breaker-views.ts";
import { cutLanes, Lane, laneRows, type LaneRest } from "./lane.ts";
import type { QueueLimits } from "./limits.ts";
import { KeyParty, Party, TypeParty } from "./parties.ts";
import { Rings } from "./rings.ts";
import { Unstarted } from "./unstarted.ts";
import { laneIdOf, type SlotRecord, type WaitingJob } from "./waiting-job.ts";

/** Part of what would bring the first key to its own limit: the slots of a key come and go. */
const fairPart = 0.8;
/** Part of what may be dispatched beyond what runs, at which more is dispatched. */
const enoughPart = 0.75;

interface Slot {
  readonly record: SlotRecord;
  readonly key: KeyParty;
  readonly type: TypeParty;
  readonly lane: Lane | undefined;
  /** True where it was taken again for the retry that its ordering key waited for. */
  readonly isAgain: boolean;
  waiting: boolean;
  /** True where its row was not to be had, so that the slot is here alone: it keeps its ordering key. */
  isDoubtful: boolean;
}

interface Wake {
  readonly atMs: number;
  readonly key: KeyParty;
}

/** See the head of the file. */
export class QueueSchedule {
  readonly name: string;
  /** Dispatched jobs whose starts count for a rate and are not known yet. */
  readonly unstarted: Unstarted = new Unstarted();
  readonly #all: Party<QueueLimits>;
  readonly #breakers: BreakerViews;
  readonly #keys = new Map<string, KeyParty>();
  readonly #types = new Map<string, TypeParty>();
  readonly #lanes = new Map<string, Lane>();
  readonly #jobs = new Map<string, WaitingJob>();
  readonly #slots = new Map<string, Slot>();
  readonly #wakes = new TinyQueue<Wake>([], (a, b) => a.atMs - b.atMs);
  #rings = this.#newRings();
  #blocked = 0;
  /** Slots that may be out, as far as the workers can start what is dispatched. */
  #allowed = Infinity;
  /** Slots with which no worker will wait soon. */
  #enough = Infinity;
  /** Slots with which keys share by their weights, whatever their limits. */
  #fair = Infinity;
  /** True from when all that may be out is out until it is no more than enough. */
  #isSated = false;

  constructor(name: string, limits: QueueLimits, breakers: BreakerViews, nowMs: number) {
    this.name = name;
    this.#breakers = breakers;
    this.#all = new Party(limits, nowMs);
  }

  get limits(): QueueLimits {
    return this.#all.limits;
  }

  /** Lets so many slots be out where the workers can run so many jobs at a time. */
  allow(running: number, most: number): void {
    const fair = Math.max(running, Math.min(most, this.#fair));
    this.#allowed = fair;
    this.#enough = running + Math.floor((fair - running) * enoughPart);
  }

  /**
   * Looks at how many slots may be out so that keys with work still share by their weights: with more, each
   * would have as many as its own limit allows, and shares would be those of the limits.
   */
  lookAtShares(): void {
    let weights = 0;
    let perWeight = Infinity;
    for (const name of this.#keysWithWork()) {
      const { weight, concurrency } = this.limits.ofKey(name);
      weights += weight;
      perWeight = Math.min(perWeight, concurrency / weight);
    }
    this.#fair = perWeight === Infinity ? Infinity : Math.floor(fairPart * perWeight * weights);
  }

  #keysWithWork(): Set<string> {
    return new Set([...this.#lanes.values()].flatMap(({ jobs }) => jobs[0]?.key ?? []));
  }

  /** Slots that count. */
  get running(): number {
    return this.#slots.size - this.#blocked;
  }

  /** True where nothing of it waits and nothing is dispatched. */
  get isEmpty(): boolean {
    return this.#lanes.size === 0 && this.#slots.size === 0;
  }

  /** True where jobs wait. */
  get hasWaiting(): boolean {
    return this.#lanes.size > 0;
  }

  /** True where a job of it has a slot, waiting or not. */
  slotOf(id: string): SlotRecord | undefined {
    const slot = this.#slots.get(id);
    return slot && { ...slot.record, waiting: slot.waiting };
  }

  /** The job where it waits, as far as is known here. */
  waitingOf(id: string): WaitingJob | undefined {
    return this.#jobs.get(id);
  }

  /** Takes new limits, at once and for everything. */
  apply(limits: QueueLimits, nowMs: number): void {
    this.#all.apply(limits, nowMs);
    for (const [name, key] of this.#keys) key.apply(limits.ofKey(name), nowMs);
    for (const [name, type] of this.#types) {
      for (const breaker of type.breakers) breaker.running -= type.running;
      type.apply(limits.ofType(name), nowMs);
      this.#bind(type);
    }
    // Keys may have been opened or shut: all lanes look for their places anew.
    this.#rings = this.#newRings();
    for (const key of this.#keys.values()) key.shut = [];
    for (const lane of this.#lanes.values()) {
      this.#rings.leave(lane);
      this.#enter(lane, nowMs);
    }
  }

  #newRings(): Rings {
    return new Rings((key, nowMs) => this.#wakeAtItsTime(key, nowMs));
  }

  #wakeAtItsTime(key: KeyParty, nowMs: number): void {
    const atMs = key.opensAtMs(nowMs);
    if (key.wakes || atMs === undefined) return;
    key.wakes = true;
    this.#wakes.push({ atMs, key });
  }

  #bind(type: TypeParty): void {
    type.breakers = type.limits.dependsOn.map((name) => this.#breakers.of(name));
    for (const breaker of type.breakers) breaker.running += type.running;
  }

  #keyOf(name: string, nowMs: number): KeyParty {
    let key = this.#keys.get(name);
    if (key === undefined) {
      key = new KeyParty(name, this.limits.ofKey(name), nowMs);
      this.#keys.set(name, key);
    }
    return key;
  }

  #typeOf(name: string, nowMs: number): TypeParty {
    let type = this.#types.get(name);
    if (type === undefined) {
      type = new TypeParty(this.limits.ofType(name), nowMs);
      this.#bind(type);
      this.#types.set(name, type);
    }
    return type;
  }

  #laneOf(job: Pick<WaitingJob, "orderingKey" | "priority" | "type" | "key">): Lane {
    const id = laneIdOf(job);
    let lane = this.#lanes.get(id);
    if (lane === undefined) {
      lane = new Lane(id);
      this.#lanes.set(id, lane);
    }
    return lane;
  }

  /** Lets a lane wait for its turn, if it has something to do. */
  #enter(lane: Lane, nowMs: number): void {
    const [first] = lane.jobs;
    if (first === undefined || lane.blockedBy !== undefined || lane.isQueued) {
      if (lane.isIdle) this.#lanes.delete(lane.id);
      return;
    }
    this.#rings.enter(lane, this.#keyOf(first.key, nowMs), this.#typeOf(first.type, nowMs), nowMs);
  }

  /** Adds a job that is new, or whose retry has come, in the order of reading. */
  add(job: WaitingJob, nowMs: number): void {
    const slot = this.#slots.get(job.id);
    if (this.#jobs.has(job.id) || slot?.waiting === false) return;
    const lane = slot?.lane ?? this.#laneOf(job);
    if (slot === undefined) {
      if (lane.push(job, laneRows(this.#lanes.size))) this.#jobs.set(job.id, job);
    } else {
      // The head of its ordering key: it goes before all that wait for it.
      this.#rings.leave(lane);
      lane.jobs.unshift(job);
      lane.blockedBy = undefined;
      this.#jobs.set(job.id, job);
    }
    this.#enter(lane, nowMs);
  }

  /** Adds a row of the backlog at its place, whatever was known of it before; null: it is gone. */
  change(id: string, job: WaitingJob | null, nowMs: number): void {
    const old = this.#jobs.get(id);
    if (old !== undefined) this.#forget(old, nowMs);
    if (job === null) {
      if (this.#slots.get(id)?.isDoubtful === true) this.ended(id, nowMs);
      return;
    }
    if (this.#slots.has(id)) {
      this.add(job, nowMs);
      return;
    }
    const lane = this.#laneOf(job);
    if (!lane.reaches(job)) return;
    // One that is put before the first changes what the lane waits with.
    this.#rings.leave(lane);
    lane.insert(job);
    this.#jobs.set(id, job);
    this.#enter(lane, nowMs);
  }

  #forget(job: WaitingJob, nowMs: number): void {
    this.#jobs.delete(job.id);
    const lane = this.#lanes.get(laneIdOf(job));
    if (lane === undefined) return;
    lane.remove(job.id);
    this.#rings.leave(lane);
    // Of a head whose retry had come: its slot blocks its key again.
    if (this.#slots.get(job.id)?.waiting === true) lane.blockedBy = job.id;
    this.#enter(lane, nowMs);
  }

  /** Lanes of which more is to be fetched. */
  cutLanes(): readonly LaneRest[] {
    return cutLanes(this.#lanes);
  }

  /** Adds the next rows of a lane; `isAll`: there are no more. */
  refill(laneId: string, jobs: readonly WaitingJob[], isAll: boolean, nowMs: number): void {
    const [first] = jobs;
    const lane = this.#lanes.get(laneId) ?? (first && this.#laneOf(first));
    if (lane === undefined) return;
    lane.isCut = false;
    for (const job of jobs) this.add(job, nowMs);
    // It may be cut again by what does not fit into memory.
    if (!isAll) lane.isCut = true;
    this.#enter(lane, nowMs);
  }

  /** A slot that is there at the start of a term. */
  restore(record: SlotRecord, nowMs: number): void {
    this.#occupy(record, nowMs);
    if (record.waiting) this.#wait(record.id, nowMs);
  }

  #occupy(record: SlotRecord, nowMs: number): void {
    const known = this.#slots.get(record.id);
    const key = known?.key ?? this.#keyOf(record.key, nowMs);
    const type = known?.type ?? this.#typeOf(record.type, nowMs);
    const lane = record.orderingKey === null ? undefined : this.#laneOf(record);
    if (lane !== undefined) lane.blockedBy = record.id;
    if (known !== undefined) this.#blocked -= 1;
    const isAgain = known?.isDoubtful === false;
    const slot = { record, key, type, lane, isAgain, waiting: false, isDoubtful: false };
    this.#slots.set(record.id, slot);
    const parties = [this.#all, key, type];
    for (const party of parties) party.start();
    const buckets = parties.map(({ bucket }) => bucket);
    this.unstarted.add(record, buckets, nowMs);
  }

  #wait(id: string, nowMs: number): void {
    const slot = this.#slots.get(id);
    if (slot === undefined || slot.waiting) return;
    slot.waiting = true;
    this.#blocked += 1;
    this.unstarted.started(id, 0, nowMs);
    for (const party of [this.#all, slot.key, slot.type]) party.stop(nowMs);
  }

  /** The job's slot is gone. */
  ended(id: string, nowMs: number): void {
    const slot = this.#slots.get(id);
    if (slot === undefined) return;
    this.#slots.delete(id);
    this.unstarted.started(id, 0, nowMs);
    if (slot.waiting) this.#blocked -= 1;
    else for (const party of [this.#all, slot.key, slot.type]) party.stop(nowMs);
    if (slot.lane?.blockedBy === id) {
      slot.lane.blockedBy = undefined;
      this.#enter(slot.lane, nowMs);
    }
    this.#reopen(slot.key, nowMs);
  }

  /** The job keeps its slot while it waits for its retry, and blocks its ordering key. */
  waits(id: string, nowMs: number): void {
    const slot = this.#slots.get(id);
    if (slot === undefined) return;
    this.#wait(id, nowMs);
    this.#reopen(slot.key, nowMs);
  }

  /** Lets the lanes of a key wait for their turns again, as soon as it is open. */
  #reopen(key: KeyParty, nowMs: number): void {
    if (key.isOpen(nowMs)) {
      for (const lane of key.shut.splice(0)) {
        lane.isShut = false;
        if (this.#lanes.get(lane.id) === lane) this.#enter(lane, nowMs);
      }
    } else if (key.shut.length > 0) {
      this.#wakeAtItsTime(key, nowMs);
    }
  }

  /** The job that goes next, with its slot; undefined: none may. */
  pick(nowMs: number): WaitingJob | undefined {
    for (let wake = this.#wakes.peek(); wake !== undefined && wake.atMs <= nowMs;) {
      this.#wakes.pop();
      wake.key.wakes = false;
      this.#reopen(wake.key, nowMs);
      wake = this.#wakes.peek();
    }
    if (this.#hasEnough() || !this.#isOpen(nowMs)) return undefined;
    const lane = this.#rings.take(nowMs, this.limits.agingMs);
    if (lane === undefined) return undefined;
    const job = lane.jobs.shift();
    if (job === undefined) throw new RangeError(`lane ${lane.id} had a turn and no job`);
    this.#jobs.delete(job.id);
    this.#occupy({ ...job, waiting: false }, nowMs);
    this.#enter(lane, nowMs);
    return job;
  }

  /** Many jobs at once cost less than one for each that ends, and the workers have enough meanwhile. */
  #hasEnough(): boolean {
    if (this.running >= this.#allowed) this.#isSated = true;
    else if (this.running <= this.#enough) this.#isSated = false;
    return this.#isSated;
  }

  /** The workers' shares keep the queue's own limit; what is dispatched may be more. */
  #isOpen(nowMs: number): boolean {
    const { closedUntilMs } = this.limits;
    const { bucket } = this.#all;
    return nowMs >= closedUntilMs && (bucket === undefined || bucket.has(nowMs));
  }

  /** Takes back a pick: nothing was written. `keep`: it waits on at its place; else it is forgotten. */
  unpick(job: WaitingJob, keep: boolean, nowMs: number): void {
    const slot = this.#slots.get(job.id);
    if (slot === undefined) return;
    const lane = slot.lane ?? this.#laneOf(job);
    this.unstarted.giveBack(job.id);
    // A head whose retry had come waits for it again; any other has no slot, but keeps those behind it waiting.
    slot.isDoubtful = !keep && !slot.isAgain && slot.lane !== undefined;
    if (slot.isAgain || slot.isDoubtful) this.waits(job.id, nowMs);
    else this.ended(job.id, nowMs);
    if (!keep) return;
    this.#lanes.set(lane.id, lane);
    this.#rings.leave(lane);
    lane.blockedBy = undefined;
    lane.jobs.unshift(job);
    this.#jobs.set(job.id, job);
    this.#enter(lane, nowMs);
  }

  /** When the clock alone lets something go; Infinity: never. */
  opensAtMs(nowMs: number): number {
    if (this.#lanes.size === 0 || this.limits.closedUntilMs === Infinity) return Infinity;
    if (!this.#isOpen(nowMs)) {
      return Math.max(this.limits.closedUntilMs, this.#all.bucket?.readyAtMs(nowMs) ?? 0);
    }
    return Math.min(this.#wakes.peek()?.atMs ?? Infinity, this.#rings.opensAtMs(nowMs));
  }

  /** Forgets keys and types that have nothing left to count. */
  tidy(nowMs: number): void {
    const withWork = this.#keysWithWork();
    for (const { key } of this.#slots.values()) withWork.add(key.name);
    for (const [name, key] of this.#keys) {
      const isUsed = withWork.has(name) || key.wakes || key.bucket?.isFull(nowMs) === false;
      if (!isUsed) this.#keys.delete(name);
    }
  }
}
