import type { QueueSettings } from "@waybill/core";

/** What the worker of a measurement is told, as JSON in FLOW_PLAN. */
export interface WorkerPlan {
  readonly queue: string;
  readonly types: readonly string[];
  readonly concurrency: number;
  readonly settings: QueueSettings;
  /** File that gets a line at every start and end of a handler; undefined: only what measures a latency. */
  readonly log: string;
  readonly logsAll: boolean;
}
