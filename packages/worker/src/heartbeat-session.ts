/** The connection of the heartbeat, which holds the session lock: it dies with the process. */

import { Client } from "pg";
import type { HeartbeatSetup } from "./heartbeat-protocol.ts";

/** What a heartbeat writes, apart from the lease. */
export interface Vitals {
  readonly running: number;
  readonly finished: number;
  readonly state: "running" | "draining";
  readonly rssBytes: number;
  readonly blockedMs: number | null;
  readonly blockedBy: string | null;
}

/** See the head of the file. Errors of the driver pass through. */
export class HeartbeatSession {
  readonly #setup: HeartbeatSetup;
  readonly #client: Client;
  #failure: unknown;

  private constructor(setup: HeartbeatSetup, onEnd: () => void) {
    this.#setup = setup;
    // A renewal without an answer for so long is better sent again on another connection, while the
    // lease still runs.
    const query_timeout = Math.max(1_000, setup.heartbeatMs);
    this.#client = new Client({ ...setup.config, query_timeout });
    const end = (error: unknown): void => {
      this.#failure ??= error;
      onEnd();
    };
    this.#client.on("end", () => end(new Error("The connection has ended.")));
    this.#client.on("error", end);
  }

  /** @param onEnd called when the connection has ended, whoever ended it */
  static async open(setup: HeartbeatSetup, onEnd: () => void): Promise<HeartbeatSession> {
    const session = new HeartbeatSession(setup, onEnd);
    try {
      await session.#client.connect();
      return session;
    } catch (error) {
      session.end();
      throw error;
    }
  }

  /** Why the connection has ended; undefined: it has not. */
  get failure(): unknown {
    return this.#failure;
  }

  end(): void {
    this.#client.end().catch(() => undefined);
  }

  /** False: an earlier connection of ours still holds it. */
  async lock(key: string): Promise<boolean> {
    const [row] = await this.#run<{ locked: boolean }>("lock_worker", [key]);
    return row?.locked === true;
  }

  async register(bootId: string, lockKey: string | null): Promise<void> {
    const { name, host, pid, version, queues, leaseMs, heartbeatMs, holdMs } = this.#setup;
    await this.#run("register_worker", [
      bootId,
      name,
      host,
      pid,
      version,
      JSON.stringify(queues),
      lockKey,
      leaseMs,
      Math.round(heartbeatMs),
      holdMs,
    ]);
  }

  /** False: the lease was over. A lease of 0 ends it. */
  async renew(bootId: string, leaseMs: number, vitals: Vitals): Promise<boolean> {
    const { running, finished, state, rssBytes, blockedMs, blockedBy } = vitals;
    const rows = await this.#run("renew_worker", [
      bootId,
      leaseMs,
      running,
      state,
      finished,
      rssBytes,
      blockedMs,
      blockedBy,
    ]);
    return rows.length > 0;
  }

  async retire(bootId: string): Promise<void> {
    await this.#run("retire_worker", [bootId]);
  }

  async #run<Row>(
    query: keyof HeartbeatSetup["statements"],
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    const { statements, ownSession } = this.#setup;
    const { name, text } = statements[query];
    const { rows } = await this.#client.query({
      text,
      values: [...values],
      ...(ownSession ? { name } : {}),
    });
    return rows as Row[];
  }
}
