import { defineJob, type Logger } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { startPrivateRabbitmq } from "../../../scripts/services/index.ts";
import { eventually } from "../../support/index.ts";
import { startApp, writeEffect } from "../../worker/support/start-app.ts";

/** Keeps what is worth a warning. */
function warningsLogger(warnings: string[]): Logger {
  const nothing = (): void => undefined;
  const warn = (_fields: object, message: string): void => void warnings.push(message);
  const logger: Logger = {
    child: () => logger,
    debug: nothing,
    info: nothing,
    warn,
    error: warn,
  };
  return logger;
}

test("D3: a handler of three minutes under a consumer timeout of one minute runs once on one channel, and its neighbours run beside it", async () => {
  await using server = await startPrivateRabbitmq({ config: "consumer_timeout = 60000" });
  await using app = await startApp({
    rabbitmqUrl: server.url,
    managementUrl: server.managementUrl,
  });
  const payload = z.object({});
  const long = defineJob({ name: "long", queue: "work", payload });
  const inTransaction = defineJob({ name: "in-tx", queue: "work", payload });
  const neighbour = defineJob({ name: "neighbour", queue: "work", payload });
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const warnings: string[] = [];
  let runs = 0;
  await app.startWorker(
    (worker) => {
      worker.handle(long, async (context) => {
        runs += 1;
        await finish;
        await context.transaction((tx) => writeEffect(tx, context));
      });
      worker.handleInTransaction(inTransaction, async (context, tx) => {
        runs += 1;
        await writeEffect(tx, context);
        await finish;
      });
      worker.handleInTransaction(neighbour, (context, tx) => writeEffect(tx, context));
    },
    {
      queues: { work: { concurrency: 6 } },
      consumerTimeoutMs: 60_000,
      logger: warningsLogger(warnings),
    },
  );
  const ended = async (): Promise<number> => {
    const rows = await app.database.rows("select from waybill.inbox where state = 'succeeded'");
    return rows.length;
  };
  await app.send("long", {});
  await app.send("in-tx", {});
  await eventually(() => runs === 2);

  let neighbours = 0;
  await eventually(
    async () => {
      await app.send("neighbour", {});
      neighbours += 1;
      const [row] = await app.database.rows<{ over: boolean }>(
        "select clock_timestamp() > max(started_at) + interval '180 seconds' as over from waybill.inbox where type in ('long', 'in-tx')",
      );
      return row?.over;
    },
    { deadlineMs: 215_000, intervalMs: 1_000 },
  );
  await eventually(async () => expect(await ended()).toBe(neighbours));
  goOn();

  await eventually(async () => expect(await ended()).toBe(neighbours + 2));
  expect(runs).toBe(2);
  expect(
    await app.database.rows("select from waybill.inbox where attempt <> 1 or crashes > 0"),
  ).toEqual([]);
  expect(await app.effects()).toBe(neighbours + 2);
  expect(await app.database.rows("select from waybill.timer")).toEqual([]);
  // Neither the broker nor the worker saw a channel end.
  expect(warnings).toEqual([]);
  expect(await server.log()).not.toMatch(/has timed out|PRECONDITION_FAILED/);
}, 240_000);
