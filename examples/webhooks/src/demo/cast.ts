import { fileURLToPath } from "node:url";
import type { Child, Children } from "../../../../scripts/stage/children.ts";
import type { Ground } from "../../../../scripts/stage/ground.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import {
  placeOf,
  relayAfter,
  relayTerm,
  waybill,
  workerOf,
} from "../../../../scripts/stage/waybill.ts";
import { catchBusy, type Kill, waitingJobs, workerTakenOver } from "./takeover.ts";

/** The processes of the example: one endpoint, service and relay, two workers. */
export interface Cast {
  readonly serviceUrl: string;
  readonly endpointUrl: string;
  /** SIGKILLs a worker that is in the middle of jobs and starts it again. */
  killWorker(signal: AbortSignal): Promise<Kill>;
  /** SIGKILLs the relay and starts it again. */
  killRelay(signal: AbortSignal): Promise<Kill>;
}

const source = (file: string): URL => new URL(`../${file}`, import.meta.url);

async function address(server: Child): Promise<string> {
  const [, url = ""] = await server.line(/^listening on (http:\S+)/);
  return url;
}

/** Waits for a sign of readiness; a process that gives none shows its last lines. */
async function ready<T>(child: Child, sign: Promise<T>): Promise<T> {
  try {
    return await sign;
  } catch (error) {
    const fact = error instanceof Error ? error.message : String(error);
    throw new Error(`${fact} The last lines of the ${child.name}:\n${child.tail()}`, {
      cause: error,
    });
  }
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`;

/** Starts all, and waits until each is ready. */
export async function startCast(
  children: Children,
  ground: Ground,
  screen: Screen,
  seed: number,
  signal: AbortSignal,
): Promise<Cast> {
  const { pool } = ground;
  const shared = placeOf(ground);
  const startServer = (name: string): Child =>
    children.start(name, [source(`${name}.ts`)], { ...shared, SEED: String(seed) });
  const startRelay = (): Child => children.start("relay", [waybill, "relay"], shared);

  const endpoint = startServer("endpoint");
  const service = startServer("service");
  const endpointUrl = await address(endpoint);
  const startWorker = async (name: string): Promise<{ child: Child; id: string }> => {
    const module = fileURLToPath(source("worker.ts"));
    const env = { ...shared, ENDPOINT_URL: endpointUrl, WAYBILL_NAME: name };
    const child = children.start(name, [waybill, "worker", module], env);
    return { child, id: await ready(child, workerOf(pool, child.pid, signal)) };
  };

  // Workers first: they declare the queues that the relay publishes to.
  const [first, second] = await Promise.all([startWorker("worker 1"), startWorker("worker 2")]);
  let relay = startRelay();
  await ready(relay, relayAfter(pool, 0, signal));
  const serviceUrl = await address(service);
  for (const child of [endpoint, service, relay, first.child, second.child]) {
    screen.event(`${child.name} runs (process ${child.pid})`);
  }

  return {
    serviceUrl,
    endpointUrl,
    async killWorker(stop) {
      const { child, id } = first;
      await catchBusy(pool, child, id, stop);
      await child.kill();
      screen.event(`${child.name} (process ${child.pid}) killed with SIGKILL, and started again`);
      const restart = startWorker(child.name);
      const { inHand, takeoverMs } = await workerTakenOver(pool, id, stop);
      screen.event(
        `the ${inHand} jobs it was running went on elsewhere within ${seconds(takeoverMs)}`,
      );
      await restart;
      return { process: "worker", pid: child.pid, inHand, takeoverMs };
    },
    async killRelay(stop) {
      const term = await relayTerm(pool);
      const { pid } = relay;
      await relay.kill();
      const killedAt = performance.now();
      screen.event(`relay (process ${pid}) killed with SIGKILL, and started again`);
      relay = startRelay();
      await ready(relay, relayAfter(pool, term, stop));
      const takeoverMs = performance.now() - killedAt;
      const inHand = await waitingJobs(pool);
      screen.event(
        `the new relay took the term after ${seconds(takeoverMs)}; ${inHand} jobs waited in the outbox`,
      );
      return { process: "relay", pid, inHand, takeoverMs };
    },
  };
}
