import type { Logger } from "@waybill/core";
import type { RelayStore } from "@waybill/postgres";

/** Options of {@link prune}. */
export interface PrunerOptions {
  readonly store: RelayStore;
  readonly outboxRetentionMs: number;
  readonly inboxRetentionMs: number;
  readonly historyRetentionMs: number;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

const batch = 1_000;
const batchesMax = 1_000;
const everyMs = 15 * 60_000;
const deadWorkerMs = 24 * 3_600_000;
/** A watcher that is only late renews what it finds. */
const deadWatchMs = 10 * 60_000;

/**
 * Deletes what is past its retention, in small batches that lock few rows for a moment.
 *
 * @returns milliseconds until the next time
 */
export async function prune(options: PrunerOptions): Promise<number> {
  const { store, signal, logger, historyRetentionMs } = options;
  const repeat = async (deleteSome: () => Promise<number>): Promise<number> => {
    let deleted = 0;
    for (let n = 0; n < batchesMax && !signal.aborted; n += 1) {
      const some = await deleteSome();
      deleted += some;
      if (some < batch) break;
    }
    return deleted;
  };
  await repeat(() => store.pruneIdempotencyKeys(batch));
  await repeat(() => store.pruneWaiting(batch));
  await repeat(() => store.prune("failures", historyRetentionMs, batch));
  await repeat(() => store.prune("results", historyRetentionMs, batch));
  await repeat(() => store.prune("dead_letters", historyRetentionMs, batch));
  await repeat(() => store.prune("checkpoints", historyRetentionMs, batch));
  await repeat(() => store.prune("progress", historyRetentionMs, batch));
  await repeat(() => store.prune("audit_log", historyRetentionMs, batch));
  await repeat(() => store.prune("dependency_events", historyRetentionMs, batch));
  await repeat(() => store.prune("watches", deadWatchMs, batch));
  await repeat(() => store.prune("workers", deadWorkerMs, batch));
  const unheard = await repeat(() => store.prune("unheard_events", historyRetentionMs, batch));
  // The only thing that ends without having run anywhere, so it is said.
  if (unheard > 0) logger.warn({ events: unheard }, "events without a subscription pruned");
  await repeat(() => store.prune("inbox_default", options.inboxRetentionMs, batch));
  await repeat(() => store.prune("outbox_default", options.outboxRetentionMs, batch));
  return everyMs;
}
