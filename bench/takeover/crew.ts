import { fileURLToPath } from "node:url";
import type { Child, Children } from "../../scripts/stage/children.ts";
import type { Ground } from "../../scripts/stage/ground.ts";
import { placeOf, waybill, workerOf } from "../../scripts/stage/waybill.ts";

/** Whether workers keep the deliveries of their jobs, or ack them early and have their lease alone. */
export type Kind = "held" | "leased";

/** A worker process, at work. */
export interface Member {
  readonly child: Child;
  readonly kind: Kind;
}

/** What starts the processes of the measurement. */
export interface Crew {
  /** Resolves when the worker is there. */
  startWorker(kind: Kind): Promise<Member>;
  startRelay(): void;
}

const module = fileURLToPath(new URL("worker.ts", import.meta.url));

/** Nobody yet. */
export function createCrew(
  children: Children,
  ground: Ground,
  leaseMs: number,
  signal: AbortSignal,
): Crew {
  const shared = {
    ...placeOf(ground),
    // Their jobs wait for a word that does not come where the measurement is broken off.
    WAYBILL_GRACE: "1s",
  };
  let workers = 0;
  return {
    async startWorker(kind) {
      workers += 1;
      const name = `worker ${workers}`;
      const child = children.start(name, [waybill, "worker", module], {
        ...shared,
        WAYBILL_NAME: name,
        LEASE_MS: String(leaseMs),
        HOLD_MS: kind === "leased" ? "1000" : undefined,
      });
      await workerOf(ground.pool, child.pid, signal);
      return { child, kind };
    },
    startRelay() {
      children.start("relay", [waybill, "relay"], shared);
    },
  };
}
