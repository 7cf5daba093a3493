import { setTimeout as delay } from "node:timers/promises";
import { ledgerName, userName } from "../field.ts";
import type { Act } from "../storm.ts";

const kill =
  (signal: NodeJS.Signals): Act =>
  async ({ fault, lastsMs }, { field, chronicle }) => {
    chronicle.note(`${fault}, down for ${lastsMs} ms`);
    const calm = chronicle.disturb("database");
    await field.postgres.kill(signal);
    chronicle.counts.database += 1;
    await delay(lastsMs);
    await field.postgres.start();
    calm();
    chronicle.note("the database answers");
  };

const freeze: Act = async ({ lastsMs }, { field, chronicle }) => {
  chronicle.note(`freeze the database for ${lastsMs} ms`);
  const calm = chronicle.disturb("freeze");
  await field.postgres.kill("SIGSTOP");
  await delay(lastsMs);
  await field.postgres.kill("SIGCONT");
  calm();
};

const endSessions: Act = async ({ pick }, { field, chronicle }) => {
  // All of them now and then, else a third.
  const third = pick < 0.2 ? -1 : Math.floor(pick * 3);
  const ended = await field.admin
    .query(
      `select pg_terminate_backend(pid) from pg_stat_activity
     where usename = $1 and application_name <> $2 and ($3 = -1 or pid % 3 = $3)`,
      [userName, ledgerName, third],
    )
    // The ledger's own session may have ended a moment ago, with the server.
    .catch(() => undefined);
  chronicle.note(`end ${ended?.rowCount ?? 0} sessions of the database`);
};

/** Faults of the database, by name. */
export const databaseActs: Readonly<Record<string, Act>> = {
  "kill database": kill("SIGKILL"),
  "immediate shutdown": kill("SIGQUIT"),
  "freeze database": freeze,
  "end sessions": endSessions,
};
