import { fileURLToPath } from "node:url";
import type { Children } from "../../../../scripts/stage/children.ts";
import type { Ground } from "../../../../scripts/stage/ground.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import { placeOf, relayAfter, waybill, workerOf } from "../../../../scripts/stage/waybill.ts";

const module = fileURLToPath(new URL("../worker.ts", import.meta.url));

/** Starts three workers and a relay, and waits until each is ready. */
export async function startCast(
  children: Children,
  ground: Ground,
  screen: Screen,
  paymentsUrl: string,
  signal: AbortSignal,
): Promise<void> {
  const shared = { ...placeOf(ground), PAYMENTS_URL: paymentsUrl };
  const startWorker = async (number: number): Promise<void> => {
    const name = `worker ${number}`;
    const env = { ...shared, WAYBILL_NAME: name };
    const child = children.start(name, [waybill, "worker", module], env);
    await workerOf(ground.pool, child.pid, signal);
    screen.event(`${name} runs (process ${child.pid})`);
  };
  await Promise.all([1, 2, 3].map(startWorker));
  const relay = children.start("relay", [waybill, "relay"], shared);
  await relayAfter(ground.pool, 0, signal);
  screen.event(`relay runs (process ${relay.pid})`);
}
