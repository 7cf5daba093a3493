import type { TestProcess } from "../../support/index.ts";
import type { App } from "../../worker/support/start-app.ts";
import type { Spans } from "./spans.ts";

const spanWorker = new URL("span-worker.ts", import.meta.url);

/** Starts two relays and three workers; each call kills one of them and starts another in its place. */
export async function startKillable(
  app: App,
  spans: Spans,
  random: () => number,
): Promise<() => Promise<void>> {
  const relays: TestProcess[] = [await app.startRelayProcess(), await app.startRelayProcess()];
  const start = (): Promise<TestProcess> => app.startWorkerProcess({}, spanWorker);
  const workers = await Promise.all([start(), start(), start()]);
  return async () => {
    const n = Math.floor(random() * 5);
    const relay = relays[n];
    const worker = workers[n - 2];
    if (relay !== undefined) {
      relay.kill("SIGKILL");
      relays[n] = await app.startRelayProcess();
    } else if (worker !== undefined) {
      await spans.kill(worker);
      workers[n - 2] = await start();
    }
  };
}
