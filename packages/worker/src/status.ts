import type { ConsumerState } from "@waybill/rabbitmq";

/** What a worker does with one queue. */
export interface QueueStatus {
  readonly queue: string;
  readonly concurrency: number;
  /** Its share of the queue's limit over all workers; undefined: there is no limit. */
  readonly share: number | undefined;
  /** Jobs being claimed or run. */
  readonly running: number;
  /** Deliveries held and not started. */
  readonly waiting: number;
  /** `consuming` only after the broker has said so; `paused` is what was asked for, and nothing is wrong. */
  readonly consumer: ConsumerState;
  /** Why it does not consume. */
  readonly reason: string | undefined;
}

/** What a worker does, for health checks. */
export interface WorkerStatus {
  readonly state: "created" | "starting" | "running" | "stopped";
  /** Its boot id; undefined while it has none and claims nothing. */
  readonly workerId: string | undefined;
  /** True where it takes no more jobs, because it was asked to drain or is stopping. */
  readonly draining: boolean;
  readonly database: "available" | "unavailable";
  /** Handlers that run. */
  readonly running: number;
  /** Attempts that have ended since it started. */
  readonly finishedJobs: number;
  /** Handlers that ignored their signal, were left behind, and still go on. */
  readonly leftBehind: number;
  readonly queues: readonly QueueStatus[];
}
