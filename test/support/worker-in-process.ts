import type { Worker } from "@waybill/worker";

/** Runs a worker that has a process for itself: prints "started" when it consumes, and waits for its end. */
export async function runInProcess<Tx>(worker: Worker<Tx>, signal: AbortSignal): Promise<void> {
  const looking = setInterval(() => {
    if (!worker.status().queues.some(({ consumer }) => consumer === "consuming")) return;
    clearInterval(looking);
    console.log("started");
  }, 10);
  try {
    await worker.run({ signal });
  } finally {
    clearInterval(looking);
  }
}
