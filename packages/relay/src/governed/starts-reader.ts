import type { GovernorStore } from "@waybill/postgres";
import type { Schedules } from "./schedules.ts";

/** Milliseconds between two looks while a start is awaited. */
const lookMs = 20;

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
    return this.#schedules.awaitsStarts ? this.#atMs + lookMs : Infinity;
  }

  async read(): Promise<void> {
    if (performance.now() < this.dueAtMs) return;
    const jobs = this.#schedules.unstarted(performance.now());
    const rows = jobs.length === 0 ? [] : await this.#store.startedJobs(jobs);
    const nowMs = performance.now();
    for (const { id, queue, ago_ms } of rows) {
      this.#schedules.of(queue, nowMs).unstarted.started(id, ago_ms, nowMs);
    }
    this.#atMs = nowMs;
  }
}
