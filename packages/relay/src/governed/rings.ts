/**
 * Which lane goes next. Lanes with work are in rings, one for each priority and type. The ring of the
 * highest priority goes first, but a lane that had no turn for agingMs counts as one priority higher, for
 * twice that time as two, and so on: so the first job of a lane waits at most (difference of priorities) x
 * agingMs while slots become free. Within a ring the key with the smallest share so far goes next (stride
 * scheduling, Waldspurger and Weihl 1995: weighted round robin without bursts). Ties go to who waits longer.
 */

import TinyQueue from "tinyqueue";
import type { Lane } from "./lane.ts";
import type { KeyParty, TypeParty } from "./parties.ts";

/** A lane's place in a ring. */
interface Entry {
  readonly lane: Lane;
  readonly key: KeyParty;
  readonly ticket: number;
  pass: number;
}

interface Ring {
  readonly priority: number;
  readonly type: TypeParty;
  readonly entries: TinyQueue<Entry>;
}

const before = (a: Entry, b: Entry): number => a.pass - b.pass || a.lane.sinceMs - b.lane.sinceMs;

/** See the head of the file. */
export class Rings {
  readonly #rings = new Map<string, Ring>();
  #tickets = 0;
  /** Share of the key that had the last turn: where newcomers begin. */
  #pass = 0;
  readonly #onShut: (key: KeyParty, nowMs: number) => void;

  /** @param onShut called with a key that a lane waits for from now on */
  constructor(onShut: (key: KeyParty, nowMs: number) => void) {
    this.#onShut = onShut;
  }

  /** Lets a lane with work wait for its turn. */
  enter(lane: Lane, key: KeyParty, type: TypeParty, nowMs: number): void {
    const [first] = lane.jobs;
    if (first === undefined || lane.isQueued || lane.isShut) return;
    const name = `${first.priority}/${first.type}`;
    let ring = this.#rings.get(name);
    if (ring === undefined) {
      ring = { priority: first.priority, type, entries: new TinyQueue<Entry>([], before) };
      this.#rings.set(name, ring);
    }
    // Who was away saves up nothing.
    key.pass = Math.max(key.pass, this.#pass);
    lane.sinceMs = nowMs;
    lane.ticket = this.#tickets += 1;
    ring.entries.push({ lane, key, ticket: lane.ticket, pass: key.pass });
  }

  /** Takes a lane out, wherever it is. */
  leave(lane: Lane): void {
    lane.isShut = false;
    lane.ticket = 0;
  }

  /** Gives a turn to the lane that goes next, if any may. */
  take(nowMs: number, agingMs: number): Lane | undefined {
    let best: { readonly ring: Ring; readonly entry: Entry; readonly level: number } | undefined;
    for (const [name, ring] of this.#rings) {
      if (ring.entries.length === 0) {
        this.#rings.delete(name);
        continue;
      }
      if (!ring.type.isOpen(nowMs)) continue;
      const entry = this.#first(ring, nowMs);
      if (entry === undefined) continue;
      const level = ring.priority + Math.floor((nowMs - entry.lane.sinceMs) / agingMs);
      if (best === undefined || this.#isBefore({ ring, entry, level }, best)) {
        best = { ring, entry, level };
      }
    }
    if (best === undefined) return undefined;
    const { lane, key } = best.entry;
    best.ring.entries.pop();
    this.leave(lane);
    this.#pass = Math.max(this.#pass, key.pass);
    key.pass += 1 / key.limits.weight;
    return lane;
  }

  #isBefore(
    a: { readonly ring: Ring; readonly entry: Entry; readonly level: number },
    b: { readonly ring: Ring; readonly entry: Entry; readonly level: number },
  ): boolean {
    if (a.level !== b.level) return a.level > b.level;
    if (a.ring.priority === b.ring.priority) return before(a.entry, b.entry) < 0;
    return a.entry.lane.sinceMs < b.entry.lane.sinceMs;
  }

  /** The first entry that may go; what may not is put where it waits. */
  #first(ring: Ring, nowMs: number): Entry | undefined {
    for (;;) {
      const entry = ring.entries.peek();
      if (entry === undefined) return undefined;
      const { lane, key } = entry;
      if (lane.ticket !== entry.ticket) {
        ring.entries.pop();
      } else if (!key.isOpen(nowMs)) {
        ring.entries.pop();
        this.leave(lane);
        lane.isShut = true;
        key.shut.push(lane);
        this.#onShut(key, nowMs);
      } else if (entry.pass < key.pass) {
        // Its key had a turn in another ring meanwhile.
        ring.entries.pop();
        entry.pass = key.pass;
        ring.entries.push(entry);
      } else {
        return entry;
      }
    }
  }

  /** When the clock alone lets something go that waits for its type. */
  opensAtMs(nowMs: number): number {
    let at = Infinity;
    for (const { type, entries } of this.#rings.values()) {
      if (entries.length > 0 && !type.isOpen(nowMs)) at = Math.min(at, type.opensAtMs(nowMs) ?? at);
    }
    return at;
  }
}
