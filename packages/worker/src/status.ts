import type { ConsumerState } from "@waybill/rabbitmq";

/** What a worker does with one queue. */
export interface QueueStatus {
  readonly queue: string;
  readonly concurrency: number;
  /** Jobs being claimed or run. */
  readonly running: number;
  /** Deliveries held and not started. */
  readonly waiting: number;
  /** `consuming` only after the broker has said so. */
  readonly consumer: ConsumerState;
  /** Why it does not consume. */
  readonly reason: string | undefined;
}

/** What a worker does, for health checks. */
export interface WorkerStatus {
  readonly state: "created" | "starting" | "running" | "stopped";
  /** Its boot id; undefined while it has none and claims nothing. */
  readonly workerId: string | undefined;
  readonly database: "available" | "unavailable";
  readonly queues: readonly QueueStatus[];
}
