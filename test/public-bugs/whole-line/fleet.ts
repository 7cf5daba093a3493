import { setTimeout as delay } from "node:timers/promises";
import { startProcess, type TestProcess } from "../../support/index.ts";

/** What relays and workers connect to. */
export interface Servers {
  readonly databaseUrl: string;
  readonly brokerUrl: string;
  readonly prefix: string;
}

/** Relays and workers as processes. */
export interface Fleet extends AsyncDisposable {
  /**
   * Kills and freezes by chance until the signal. Whoever is killed is replaced; whoever is frozen
   * loses its lease and goes on.
   *
   * @returns how often what was done to whom
   */
  torment(random: () => number, signal: AbortSignal): Promise<Readonly<Record<string, number>>>;
  /** The processes that have ended by themselves; there should be none. */
  failures(): readonly string[];
}

type Role = "relay" | "worker";

const scripts: Readonly<Record<Role, URL>> = {
  relay: new URL("../../support/relay-process.ts", import.meta.url),
  worker: new URL("worker-process.ts", import.meta.url),
};

/** Starts a fleet; resolves when all of it runs. */
export async function startFleet(
  servers: Servers,
  sizes: Readonly<Record<Role, number>>,
): Promise<Fleet> {
  const stack = new AsyncDisposableStack();
  const alive: { readonly role: Role; readonly process: TestProcess }[] = [];
  let started = 0;

  async function start(role: Role): Promise<TestProcess> {
    started += 1;
    const name = `${role}-${started}`;
    const { databaseUrl, brokerUrl, prefix } = servers;
    const relayOptions = {
      databaseUrl,
      broker: { url: brokerUrl, prefix },
      name,
      batchSize: 50,
      leaseMs: 500,
      idlePollMs: 50,
    };
    const process = stack.use(
      await startProcess(scripts[role], role === "relay" ? [JSON.stringify(relayOptions)] : [], {
        DATABASE_URL: databaseUrl,
        BROKER_URL: brokerUrl,
        PREFIX: prefix,
        NAME: name,
      }),
    );
    alive.push({ role, process });
    return process;
  }

  const first = await Promise.all(
    Object.entries(sizes).flatMap(([role, size]) =>
      Array.from({ length: size }, () => start(role as Role)),
    ),
  );
  await Promise.all(first.map((process) => process.waitForLine("ready", { deadlineMs: 40_000 })));

  return {
    async torment(random, signal) {
      const done: Record<string, number> = {};
      while (!signal.aborted) {
        await delay(300 + random() * 700);
        const victim = alive[Math.floor(random() * alive.length)];
        if (victim === undefined) break;
        const { role, process } = victim;
        const act = random() < 0.8 ? "killed" : "frozen";
        done[`${role} ${act}`] = (done[`${role} ${act}`] ?? 0) + 1;
        if (act === "killed") {
          process.kill("SIGKILL");
          alive.splice(alive.indexOf(victim), 1);
          await start(role);
        } else {
          process.kill("SIGSTOP");
          await delay(1_600 + random() * 400);
          process.kill("SIGCONT");
        }
      }
      return done;
    },
    failures: () =>
      alive
        .filter(({ process }) => process.hasExited)
        .map(({ role, process }) => `${role}: ${process.lines.slice(-10).join("\n")}`),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
