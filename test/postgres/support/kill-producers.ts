import { expect } from "vitest";
import { eventually, startProcess } from "../../support/index.ts";
import { startApplication } from "../application.ts";

/** What killed producers have left. */
export interface ProducerAftermath {
  /** Jobs without their business row, and the other way round. */
  readonly halves: readonly unknown[];
  /** Jobs that a producer was told are committed, and are not there. */
  readonly missing: ReadonlySet<string>;
  /** Jobs that producers were told are committed. */
  readonly told: number;
}

/** Kills producers one after the other, each in the middle of twenty transactions. */
export async function killProducers(kills: number): Promise<ProducerAftermath> {
  await using app = await startApplication();
  const told: string[] = [];
  for (let n = 0; n < kills; n += 1) {
    await using producer = await startProcess(new URL("producer-process.ts", import.meta.url), [], {
      DATABASE_URL: app.db.url,
    });
    const enough = 20 + Math.random() * 40;
    await eventually(() => producer.stdout.length > enough || producer.hasExited);
    producer.kill("SIGKILL");
    expect(await producer.exited).toEqual({ code: null, signal: "SIGKILL" });
    for (const line of producer.stdout) {
      const id = /^committed (\S{36})$/.exec(line)?.[1];
      if (id !== undefined) told.push(id);
    }
  }
  // The server learns of a death when it next reads from the connection.
  await eventually(async () =>
    expect(
      await app.count(
        "pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
      ),
    ).toBeLessThan(10),
  );

  const stored = await app.db.rows<{ id: string }>("select id from waybill.outbox");
  return {
    halves: await app.db.rows(
      `select o.id, b.note from waybill.outbox as o full join orders as b on b.note = o.id::text
       where o.id is null or b.note is null`,
    ),
    missing: new Set(told).difference(new Set(stored.map(({ id }) => id))),
    told: told.length,
  };
}
