/** One case of the matrix: a process meets a fault at a step, another one takes over, the books balance. */

import { createRelay } from "@waybill/relay";
import { expect } from "vitest";
import { eventually, startProcess, type TestProcess } from "../../support/index.ts";
import { testLogger } from "../../worker/support/app-parts.ts";
import { type App, startApp } from "../../worker/support/start-app.ts";
import { handleAll, holdMs, queues } from "./jobs.ts";
import { createLedger, expectNothingLeft, faultsIn } from "./ledger.ts";
import { enqueueLoad, enqueueOne, makeOutside, outside } from "./load.ts";
import type { Action, VictimSettings } from "./victim.ts";

type Role = "relay" | "worker";

/** Something that runs in this process. */
interface Running {
  stop(): Promise<void>;
}

const patience = { deadlineMs: 90_000 };

function startRelay(app: App): Running {
  const stop = new AbortController();
  const ended = createRelay({
    databaseUrl: app.database.url,
    broker: { url: app.vhost.url, prefix: app.vhost.prefix },
    logger: testLogger,
    idlePollMs: 50,
    leaseMs: 1_000,
  }).run({ signal: stop.signal });
  ended.catch(() => undefined);
  return {
    async stop() {
      stop.abort();
      await ended;
    },
  };
}

const start = (app: App, role: Role): Promise<Running> | Running =>
  role === "relay" ? startRelay(app) : app.startWorker(handleAll, { queues, holdMs });

async function startVictim(app: App, point: string, action: Action): Promise<TestProcess> {
  const settings: VictimSettings = {
    databaseUrl: app.database.url,
    broker: { url: app.vhost.url, prefix: app.vhost.prefix },
    point,
    action,
  };
  const { WAYBILL_TEST_LOG } = process.env;
  const program = new URL("victim.ts", import.meta.url);
  return await startProcess(program, [JSON.stringify(settings)], { WAYBILL_TEST_LOG });
}

/** The victim goes on by itself: it does a job that nobody else can do, and stops in good order. */
async function expectWorking(app: App, victim: TestProcess): Promise<void> {
  await enqueueOne(app);
  await eventually(() => expectNothingLeft(app), patience);
  victim.kill("SIGTERM");
  const { code, signal } = await victim.exited;
  if (code === 0) return;
  throw new Error(`The victim ended by ${signal ?? code}:\n${victim.lines.slice(-20).join("\n")}`);
}

/** What there is to see when all is over. */
export interface Aftermath {
  /** See {@link faultsIn}. */
  readonly faults: Readonly<Record<string, unknown[]>>;
  /** Messages left in the queues of workers. */
  readonly messages: number;
  /** Whether the message that the broker refused at first has arrived. */
  readonly hasArrived: boolean;
}

/** Nothing lost, nothing doubled, nothing left. */
export const harmless: Aftermath = { faults: {}, messages: 0, hasArrived: true };

/**
 * Runs a load through the line while its only relay or worker meets a fault once. One that was killed
 * or froze is replaced; one in which something threw goes on by itself.
 *
 * @throws Error where a job does not end, a row is left behind, or a process does not go on
 */
export async function meetFault(point: string, action: Action): Promise<Aftermath> {
  await using app = await startApp({ queues: Object.keys(queues) });
  await using running = new AsyncDisposableStack();
  const role: Role = point.startsWith("relay.") ? "relay" : "worker";
  const other: Role = role === "relay" ? "worker" : "relay";
  await createLedger(app);
  await enqueueLoad(app);
  const partner = await start(app, other);
  running.defer(() => partner.stop());
  const victim = running.use(await startVictim(app, point, action));

  await victim.waitForLine(`reached ${point}`, patience);
  await makeOutside(app);
  if (action === "throw") {
    await eventually(() => expectNothingLeft(app), patience);
    await expectWorking(app, victim);
  } else {
    if (action === "exit") expect(await victim.exited).toMatchObject({ signal: "SIGKILL" });
    const successor = await start(app, role);
    running.defer(() => successor.stop());
    await eventually(() => expectNothingLeft(app), patience);
    expect(await faultsIn(app)).toEqual({});
    if (action === "hang") {
      victim.kill("SIGCONT");
      await victim.waitForLine("thawed");
      await successor.stop();
      await expectWorking(app, victim);
    }
  }

  await running.disposeAsync();
  await expectNothingLeft(app);
  return {
    faults: await faultsIn(app),
    messages: (await app.courier.depth("waybill.work")) + (await app.courier.depth("waybill.fair")),
    hasArrived: (await app.courier.depth(outside)) > 0,
  };
}
