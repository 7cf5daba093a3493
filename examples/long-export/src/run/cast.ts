import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import type { Child, Children } from "../../../../scripts/stage/children.ts";
import type { Ground } from "../../../../scripts/stage/ground.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import { placeOf, waybill, workerOf } from "../../../../scripts/stage/waybill.ts";

/** The processes of the example: a receiver of webhooks, a relay, three workers. */
export interface Cast {
  /** Webhooks that the receiver found genuine, for this job. */
  webhook(jobId: string): Promise<string>;
  /** SIGKILLs the worker process that runs a job, and starts another one in its place. */
  killWorker(pid: number): Promise<void>;
  /** Resolves when the workers that were started in the place of killed ones are ready. */
  ready(): Promise<void>;
}

const source = (file: string): string => fileURLToPath(new URL(`../${file}`, import.meta.url));

/**
 * Starts all, and waits until each is ready.
 *
 * @param pauseMs between two steps of an export
 */
export async function startCast(
  children: Children,
  ground: Ground,
  screen: Screen,
  pauseMs: number,
  signal: AbortSignal,
): Promise<Cast> {
  const secret = randomBytes(32).toString("base64");
  const shared = { ...placeOf(ground), WEBHOOK_SECRET: secret };
  const receiver = children.start("receiver", [new URL("../receiver.ts", import.meta.url)], shared);
  const [, webhookUrl = ""] = await receiver.line(/^listening on (http:\S+)/);

  const workers = new Map<number, Child>();
  const startWorker = async (name: string): Promise<void> => {
    const env = {
      ...shared,
      WEBHOOK_URL: webhookUrl,
      WAYBILL_NAME: name,
      PAUSE_MS: String(pauseMs),
    };
    const child = children.start(name, [waybill, "worker", source("worker.ts")], env);
    workers.set(child.pid, child);
    await workerOf(ground.pool, child.pid, signal);
    screen.event(`${name} runs (process ${child.pid})`);
  };
  await Promise.all([1, 2, 3].map((number) => startWorker(`worker ${number}`)));
  const relay = children.start("relay", [waybill, "relay"], shared);
  screen.event(`relay runs (process ${relay.pid})`);

  const restarts: Promise<void>[] = [];
  return {
    async webhook(jobId) {
      const [, body = ""] = await receiver.line(new RegExp(`^webhook (.*${jobId}.*)$`));
      return body;
    },
    async killWorker(pid) {
      const child = workers.get(pid);
      if (child === undefined) throw new Error(`No worker of ours has process id ${pid}.`);
      workers.delete(pid);
      await child.kill();
      const restart = startWorker(child.name);
      // Whoever waits for it hears of it.
      restart.catch(() => undefined);
      restarts.push(restart);
    },
    async ready() {
      await Promise.all(restarts);
    },
  };
}
