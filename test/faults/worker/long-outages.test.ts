import { defineJob } from "@waybill/core";
import type { Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  type PrivateRabbitmq,
  startPrivatePostgres,
  startPrivateRabbitmq,
} from "../../../scripts/services/index.ts";
import { eventually, startProxy } from "../../support/index.ts";
import { type App, startApp, writeEffect } from "../../worker/support/start-app.ts";

const long = defineJob({ name: "long", queue: "work", payload: z.object({}), timeoutMs: 0 });
const quick = defineJob({ name: "quick", queue: "work", payload: z.object({}) });

/** Jobs "long" that go on until they are told to end. */
class LongJobs {
  readonly #end = Promise.withResolvers<void>();
  starts = 0;

  readonly register = (worker: Worker<PoolClient>): void => {
    worker.handle(long, async (job) => {
      this.starts += 1;
      await this.#end.promise;
      await job.transaction((tx) => writeEffect(tx, job));
    });
    worker.handleInTransaction(quick, (job, tx) => writeEffect(tx, job));
  };

  end(): void {
    this.#end.resolve();
  }
}

const leases = async (app: App): Promise<number> => {
  const rows = await app.database.rows("select from waybill.timer where reason = 'lease'");
  return rows.length;
};

/** Deliveries that some consumer holds. */
const held = async (server: PrivateRabbitmq, app: App): Promise<number> => {
  const text = await server.ctl(
    "list_queues",
    "--quiet",
    "--no-table-headers",
    "--vhost",
    app.vhost.name,
    "name",
    "messages_unacknowledged",
  );
  const line = text.split("\n").find((each) => each.startsWith("waybill.work\t"));
  return Number(line?.split("\t")[1]);
};

const untouched = async (app: App, count: number): Promise<void> => {
  await eventually(async () =>
    expect(
      await app.database.rows(
        "select from waybill.inbox where type = 'long' and state = 'succeeded' and attempt = 1 and crashes = 0",
      ),
    ).toHaveLength(count),
  );
  expect(await app.database.rows("select from effect")).toHaveLength(
    (await app.database.rows("select from waybill.inbox where state = 'succeeded'")).length,
  );
  await eventually(async () => {
    expect(await app.courier.depth("waybill.work")).toBe(0);
    expect(await app.database.rows("select from waybill.timer")).toEqual([]);
  });
};

test("long jobs without deliveries outlive restarts of their database, run by whom they ran before", async () => {
  await using server = await startPrivatePostgres();
  await using app = await startApp({ serverUrl: server.url });
  await using _relay = await app.startRelayProcess();
  const jobs = new LongJobs();
  const options = { holdMs: 1_000, leaseMs: 120_000 };
  const workers = [
    await app.startWorker(jobs.register, options),
    await app.startWorker(jobs.register, options),
  ];
  for (let n = 0; n < 5; n += 1) await app.enqueue("long", {});
  await eventually(async () => expect(await leases(app)).toBe(5));

  for (let restart = 0; restart < 3; restart += 1) {
    await server.restart();
    await eventually(() => workers.every(({ worker }) => worker.status().database === "available"));
    // The relay is back as well.
    const id = await app.enqueue("quick", {});
    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  }
  jobs.end();

  await untouched(app, 5);
  expect(jobs.starts).toBe(5);
});

test("a lease whose time comes while the database is away is made after it, and until then the delivery is held", async () => {
  await using server = await startPrivateRabbitmq();
  await using app = await startApp({
    rabbitmqUrl: server.url,
    managementUrl: server.managementUrl,
  });
  await using proxy = await startProxy(app.database.url);
  const jobs = new LongJobs();
  await using running = await app.startWorker(jobs.register, {
    databaseUrl: proxy.url(app.database.url),
    holdMs: 3_000,
    leaseMs: 120_000,
  });
  await app.send("long", {});
  await eventually(() => jobs.starts === 1);

  proxy.refuse();
  await eventually(() => running.worker.status().database === "unavailable");
  await eventually(async () => {
    const [row] = await app.database.rows<{ over: boolean }>(
      "select clock_timestamp() > started_at + interval '6 seconds' as over from waybill.inbox",
    );
    return row?.over;
  });
  expect(await leases(app)).toBe(0);
  expect(await held(server, app)).toBe(1);
  proxy.pass();

  await eventually(async () => expect(await leases(app)).toBe(1));
  await eventually(async () => expect(await held(server, app)).toBe(0));
  jobs.end();
  await untouched(app, 1);
  expect(jobs.starts).toBe(1);
});

test("a restart of the broker does nothing to a long job, with or without its delivery", async () => {
  await using server = await startPrivateRabbitmq();
  await using app = await startApp({
    rabbitmqUrl: server.url,
    managementUrl: server.managementUrl,
  });
  const jobs = new LongJobs();
  await app.startWorker(jobs.register, { holdMs: 5_000 });
  await app.enqueue("long", {});
  await app.courier.round();
  await eventually(async () => expect(await leases(app)).toBe(1));
  await app.enqueue("long", {});
  await app.courier.round();
  await eventually(() => jobs.starts === 2);

  await server.restart();

  // What the broker has of the second one it gives again; nobody holds it once there is a lease.
  await eventually(async () => expect(await leases(app)).toBe(2));
  await using _relay = await app.startRelayProcess();
  const id = await app.enqueue("quick", {});
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  await eventually(async () => expect(await held(server, app)).toBe(0));
  jobs.end();
  await eventually(async () =>
    expect(
      await app.database.rows(
        "select from waybill.inbox where state = 'succeeded' and attempt = 1",
      ),
    ).toHaveLength(3),
  );
  expect(jobs.starts).toBe(2);
  expect(await app.effects()).toBe(3);
  expect(await app.database.rows("select from waybill.inbox where crashes > 0")).toEqual([]);
});
