import type { GovernorStore } from "@waybill/postgres";
import type { Schedules } from "./schedules.ts";
import { startsMs } from "./token-bucket.ts";

/** Reads which dispatched jobs have started, where a rate counts starts. */
export class StartsReader {
  readonly #store: Pick<GovernorStore, "startedJobs">;
  readonly #schedules: Schedules;
  #atMs = 0;

  constructor(store: Pick<GovernorStore, "startedJobs">, schedules: Schedules) {
    this.#store = store;
    this.#schedules = schedules;
  }

  /** When to look again; Infinity while no start is awaited. */
  get dueAtMs(): number {
    return this.#schedules.awaitsStarts ? this.#atMs + startsMs : Infinity;
  }

  async read(): Promise<void> {
    const beganAtMs = performance.now();
    if (beganAtMs < this.dueAtMs) return;
    const jobs = this.#schedules.unstarted(beganAtMs);
    const rows = jobs.length === 0 ? [] : await this.#store.startedJobs(jobs);
    const nowMs = performance.now();
    for (const { id, queue, ago_ms } of rows) {
      this.#schedules.of(queue, nowMs).unstarted.started(id, ago_ms, nowMs);
    }
    this.#atMs = nowMs;
  }
}
