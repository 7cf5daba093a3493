import { Logger } from "@nestjs/common";
import {
  type ClientProxy,
  ClientProxyFactory,
  RmqRecordBuilder,
  Transport,
} from "@nestjs/microservices";
import { lastValueFrom, timeout, TimeoutError } from "rxjs";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { type ForeignLine, startForeignLine } from "../foreign/foreign-line.ts";

interface NestClient extends AsyncDisposable {
  readonly client: ClientProxy;
}

Logger.overrideLogger(false);

/** A NestJS client of the worker's queue, which it must not declare in its own way. */
async function nestClient(foreign: ForeignLine): Promise<NestClient> {
  const client = ClientProxyFactory.create({
    transport: Transport.RMQ,
    options: {
      urls: [foreign.line.vhost.url],
      queue: "waybill.emails",
      noAssert: true,
      persistent: true,
    },
  });
  await client.connect();
  return { client, [Symbol.asyncDispose]: async () => await client.close() };
}

const nestQueue = { queues: { emails: { concurrency: 5, decoder: "nestjs" as const } } };

test("what NestJS emits runs once", async () => {
  await using foreign = await startForeignLine(nestQueue);
  await using nest = await nestClient(foreign);

  await lastValueFrom(nest.client.emit("emails.welcome", { to: "nest@example.com", n: 12 }), {
    defaultValue: undefined,
  });
  const outcomes = await foreign.settled(1);

  expect(outcomes).toMatchObject([{ type: "emails.welcome", outcome: "ran" }]);
  expect(await foreign.handled()).toEqual(['{"to":"nest@example.com","n":12}']);
});

test("a NestJS record with a message id runs once however often it is emitted", async () => {
  await using foreign = await startForeignLine(nestQueue);
  await using nest = await nestClient(foreign);
  const record = new RmqRecordBuilder({ to: "nest@example.com" })
    .setOptions({ messageId: "nest-1", headers: { tenant: "acme" }, priority: 3 })
    .build();

  for (let n = 0; n < 3; n += 1) {
    await lastValueFrom(nest.client.emit("emails.welcome", record), { defaultValue: undefined });
  }
  await foreign.settled(1);
  await foreign.isAlive();

  expect(await foreign.handled()).toHaveLength(2);
});

test("what NestJS sends runs, nobody answers, and the caller times out", async () => {
  await using foreign = await startForeignLine(nestQueue);
  await using nest = await nestClient(foreign);

  const call = lastValueFrom(
    nest.client.send("emails.welcome", { to: "rpc@example.com" }).pipe(timeout(1_500)),
  ).catch((error: unknown) => error);
  await eventually(async () => (await foreign.handled()).length === 1);

  expect(await call).toBeInstanceOf(TimeoutError);
  expect(await foreign.settled(1)).toMatchObject([{ outcome: "ran" }]);
  expect(await foreign.line.database.rows("select id from waybill.outbox")).toEqual([]);
});

test("a NestJS pattern that is an object is dead-lettered with a reason where the queue has several jobs", async () => {
  await using foreign = await startForeignLine({ ...nestQueue, jobs: { emails: ["a", "b"] } });
  await using nest = await nestClient(foreign);

  await lastValueFrom(nest.client.emit({ cmd: "welcome", v: 1 }, { to: "a" }), {
    defaultValue: undefined,
  });
  const [outcome] = await foreign.settled(1);
  const [letter] = await foreign.deadLetters("emails", 1);

  expect(outcome?.reason).toMatch(/^no type: .* text as the body's pattern/);
  expect(JSON.parse(String(letter?.content))).toMatchObject({ pattern: { cmd: "welcome", v: 1 } });
});
