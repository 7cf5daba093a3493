/**
 * One term from beginning to end: reads the cursor, runs every loop, and ends when the signal says so
 * (then what is on its way is waited for and the cursor saved) or when something essential fails
 * (then it is given up: the next term begins where the saved cursor is).
 */

import type { Logger } from "@waybill/core";
import {
  createAuditStore,
  createDependencyStore,
  createFlowStore,
  createGovernorStore,
} from "@waybill/postgres";
import { type BrokerConnection, names as namesOf } from "@waybill/rabbitmq";
import { Auditor } from "./auditor.ts";
import { Breakers } from "./breakers.ts";
import { CursorSaver } from "./cursor-saver.ts";
import { DeadOwners } from "./dead-owners.ts";
import type { Destinations } from "./destinations.ts";
import { Governor } from "./governed/governor.ts";
import { Dispatcher, type PublishCounts } from "./dispatcher.ts";
import type { RelayFailpointHook } from "./internals.ts";
import type { ResolvedRelayOptions } from "./options.ts";
import { keepPartitions } from "./partition-keeper.ts";
import { loadCursor } from "./position-check.ts";
import { prune } from "./pruner.ts";
import type { DatabaseSession, RelayDatabase } from "./relay-database.ts";
import { ShareGrants } from "./shares.ts";
import { Term } from "./term.ts";
import { fireDueTimers } from "./timers.ts";
import { runUpkeep } from "./upkeep-loop.ts";
import { WakeUp } from "./wake-up.ts";
import { readOutbox } from "./window-reader.ts";

/** What a term works with. */
export interface LeadContext {
  readonly options: ResolvedRelayOptions;
  readonly database: RelayDatabase;
  readonly connection: BrokerConnection;
  readonly destinations: Destinations;
  readonly counts: PublishCounts;
  readonly logger: Logger;
  readonly random: () => number;
  readonly failpoint: RelayFailpointHook;
  /** See {@link Auditor}. */
  readonly settleMs: number | undefined;
  /** Called with what {@link Relay.status} shows of the term. */
  readonly onLeading: (view: LeadView | undefined) => void;
}

/** A look into a running term. */
export interface LeadView {
  readonly wakeUp: WakeUp;
  readonly dispatcher: Dispatcher;
}

/** A term that was taken. */
export interface TakenTerm {
  readonly epoch: string;
  readonly takenAtMs: number;
  readonly rowWasMissing: boolean;
}

/**
 * Leads until the signal or a failure.
 *
 * @throws what ended the term
 */
export async function lead(
  context: LeadContext,
  taken: TakenTerm,
  stop: AbortSignal,
): Promise<void> {
  const { options, database, logger } = context;
  const term = new Term({
    store: database.store,
    epoch: taken.epoch,
    takenAtMs: taken.takenAtMs,
    leaseMs: options.leaseMs,
    logger,
  });
  const session = await database.openSession();
  // Of its own: a round must not wait for a page that is being read.
  const rounds = await database.openSession().catch(async (error: unknown) => {
    await session.close();
    throw error;
  });
  try {
    const cursor = await loadCursor(
      session.store,
      () => database.openPatientSession(),
      term.epoch,
      taken.rowWasMissing,
      logger,
    );
    // A rescan may have taken longer than the lease.
    await term.renew();
    const origin = await session.store.origin();
    await runLoops({ ...context, session, rounds, term, origin }, cursor, stop);
  } finally {
    await Promise.all([session.close(), rounds.close()]);
  }
}

interface LoopContext extends LeadContext {
  readonly session: DatabaseSession;
  /** Connection of the governor. */
  readonly rounds: DatabaseSession;
  readonly term: Term;
  readonly origin: string | undefined;
}

async function runLoops(
  context: LoopContext,
  cursor: Parameters<typeof readOutbox>[0]["cursor"],
  stop: AbortSignal,
): Promise<void> {
  const { options, database, session, rounds, term, logger, random, failpoint, connection } =
    context;
  const ending = new AbortController();
  const reading = AbortSignal.any([stop, ending.signal]);
  let failure: { readonly error: unknown } | undefined;
  const fail = (error: unknown): void => {
    failure ??= { error };
    ending.abort();
  };

  const saver = new CursorSaver({
    store: session.store,
    epoch: term.epoch,
    failpoint,
    onFailed: fail,
  });
  const dispatcher = new Dispatcher({
    connection,
    destinations: context.destinations,
    names: namesOf(options.broker.prefix),
    signing: options.signing,
    confirmTimeoutMs: options.confirmTimeoutMs,
    epoch: term.epoch,
    origin: context.origin,
    store: database.store,
    logger,
    random,
    failpoint,
    counts: context.counts,
    onSettled: (settled, hadRows) => saver.note(settled, !hadRows),
    onFailed: fail,
    onParked: (rows) => governor.refuse(rows),
  });
  const governor = createGovernor(context, dispatcher);
  const { schema, idlePollMs } = options;
  const wakeUp = new WakeUp({ database, schema, idlePollMs, logger, random });
  const stopListening = connection.onReady(() => dispatcher.pump());
  context.onLeading({ wakeUp, dispatcher });
  const pumping = setInterval(() => dispatcher.pump(), 250);
  pumping.unref();
  for (const { ended } of [session, rounds]) {
    void ended.then(() => fail(new Error("the connection to the database has ended")));
  }
  const essential = [term.keep(ending.signal)];
  const upkeep = [wakeUp.run(ending.signal), ...startUpkeep(context, wakeUp, ending.signal)];
  for (const loop of essential) loop.catch(fail);
  const stopGovernor = (): void => governor.stop();
  stop.addEventListener("abort", stopGovernor, { once: true });
  try {
    await governor.begin();
    const governing = governor.run(ending.signal);
    essential.push(governing);
    governing.catch(fail);
    await readOutbox(
      {
        store: session.store,
        term,
        dispatcher,
        destinations: context.destinations,
        wakeUp,
        governor,
        cursor,
        limits: { rows: options.batchSize, bytes: options.batchBytes },
        strict: database.pooled,
        saved: () => saver.flush(),
      },
      reading,
    );
    if (failure === undefined) {
      await dispatcher.drain(options.graceMs);
      await saver.flush();
    }
  } catch (error) {
    fail(error);
  } finally {
    context.onLeading(undefined);
    clearInterval(pumping);
    stop.removeEventListener("abort", stopGovernor);
    stopListening();
    saver.stop();
    ending.abort();
    await dispatcher.close();
    await Promise.allSettled([...essential, ...upkeep]);
  }
  if (failure !== undefined) throw failure.error;
}

function createGovernor(context: LoopContext, dispatcher: Dispatcher): Governor {
  const { options, database, rounds, term, logger, failpoint, destinations } = context;
  const store = createGovernorStore(rounds.client, {
    schema: options.schema,
    prepare: !database.pooled,
  });
  return new Governor({
    store,
    async inSnapshot(work) {
      await rounds.client.query("begin isolation level repeatable read");
      try {
        const found = await work(store);
        await rounds.client.query("commit");
        return found;
      } catch (error) {
        // The first error is the one that counts; where this fails too, the connection has ended.
        await rounds.client.query("rollback").catch(() => undefined);
        throw error;
      }
    },
    epoch: term.epoch,
    dispatcher,
    ensure: (queues) => destinations.ensure(queues),
    failpoint,
    logger,
  });
}

/** Starts what keeps the house; none of it ever ends the term. */
function startUpkeep(
  context: LoopContext,
  wakeUp: WakeUp,
  signal: AbortSignal,
): readonly Promise<void>[] {
  const { options, database, logger, random, failpoint, term } = context;
  const { store } = database;
  const patiently = async <T>(work: (patient: typeof store) => Promise<T>): Promise<T> => {
    const session = await database.openPatientSession();
    const cut = (): void => void session.close();
    signal.addEventListener("abort", cut, { once: true });
    try {
      return await work(session.store);
    } finally {
      signal.removeEventListener("abort", cut);
      await session.close();
    }
  };
  let pruneAtMs = 0;
  let wakeTimers: (() => void) | undefined;
  const owners = new DeadOwners({
    store,
    patiently,
    logger,
    failpoint,
    onLeases: () => wakeTimers?.(),
    onDispatched: () => wakeUp.hint(),
  });
  const { pool } = database;
  const storeOptions = { schema: options.schema, prepare: !database.pooled };
  const shares = new ShareGrants(createFlowStore(pool, storeOptions), term.epoch);
  const auditor = new Auditor({
    store: createAuditStore(pool, storeOptions),
    epoch: term.epoch,
    connection: context.connection,
    names: namesOf(options.broker.prefix),
    topology: options.broker.topology,
    logger,
    failpoint,
    settleMs: context.settleMs,
    onDispatched: () => wakeTimers?.(),
  });
  const breakers = new Breakers({
    store: createDependencyStore(pool, storeOptions),
    epoch: term.epoch,
    logger,
  });
  const start = (
    name: string,
    work: () => Promise<number>,
    onWake?: (wake: () => void) => void,
  ): Promise<void> => runUpkeep({ name, logger, random, work, onWake }, signal);
  return [
    start(
      "timers",
      () =>
        fireDueTimers({
          store,
          idlePollMs: options.idlePollMs,
          logger,
          failpoint,
          onFired: () => wakeUp.hint(),
        }),
      (wake) => {
        wakeTimers = wake;
      },
    ),
    start("shares of limits", () => shares.grant()),
    // One after the other: both lock the default partitions.
    start("housekeeping", () =>
      patiently(async (patient) => {
        const keepMs = await keepPartitions({ ...options, store: patient, logger });
        if (performance.now() >= pruneAtMs) {
          pruneAtMs =
            performance.now() + (await prune({ ...options, store: patient, signal, logger }));
        }
        return keepMs;
      }),
    ),
    // Apart: looking through a large inbox takes longer than a lease may wait.
    start("leases of dead owners", () => owners.fireLeases()),
    start("jobs of dead owners", () => owners.sweep()),
    start("breakers", () => breakers.step()),
    start("auditor", () => auditor.pass()),
  ];
}
