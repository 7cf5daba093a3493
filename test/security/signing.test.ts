/** Messages that only the relay can have made: S7. */

import {
  createKeyRing,
  defineEvent,
  defineJob,
  defineTerminalEvent,
  type KeyRing,
  newJobId,
} from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import {
  type RawMessage,
  keyRing,
  note,
  startGuardedLine,
  write,
  writesNotes,
} from "./guarded-line.ts";

const headersOf = ({ properties }: RawMessage): Record<string, unknown> => ({
  ...(properties["headers"] as Record<string, unknown>),
});

const ordered = defineEvent({ name: "order.created", payload: z.object({ n: z.int() }) });
const noteEnded = defineTerminalEvent("note.ended");

test("S7: jobs, retries, delays, events, ends of jobs and dead letters that were moved back run under strict signing", async () => {
  await using guarded = await startGuardedLine();
  const { line, outbox } = guarded;
  const signing = keyRing("k");
  let works = false;
  const strict = defineJob({
    name: "note.strict",
    queue: "notes",
    payload: z.object({ n: z.int() }),
    retry: { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 },
    onTerminal: noteEnded,
  });
  let failures = 0;
  await guarded.startWorker(
    ["notes"],
    (worker) => {
      worker.handleInTransaction(strict, async (job, tx) => {
        if (job.payload.n === 2 && !works) throw new Error("not yet");
        await write(tx, `job ${job.payload.n}`);
      });
      for (const subscription of ["billing", "mail"]) {
        worker.on(
          ordered,
          { subscription, retry: { initialDelayMs: 1, maxDelayMs: 1 } },
          async (event, tx) => {
            if (subscription === "mail" && (failures += 1) === 1) throw new Error("again");
            await write(tx, `${subscription} ${event.payload.n}`);
          },
        );
      }
      worker.on(noteEnded, { subscription: "ends" }, (event, tx) =>
        write(tx, `end ${event.payload.state}`),
      );
    },
    {
      signing,
      queues: Object.fromEntries(
        ["notes", "billing", "mail", "ends"].map((queue) => [queue, { concurrency: 2 }]),
      ),
    },
  );
  guarded.startRelay({ signing });

  await line.transaction(async (tx) => {
    const headers = { tenant: "a", empty: "", zoë: "ü" };
    await outbox.enqueue(tx, strict, { n: 1 }, { headers, correlationId: "c", priority: 9 });
    await outbox.enqueue(tx, strict, { n: 2 }, { orderingKey: "k" });
    await outbox.enqueue(tx, strict, { n: 3 }, { delayMs: 1, expiresAt: new Date(4e12) });
    await outbox.publish(tx, ordered, { n: 4 });
  });

  const wanted = [
    "billing 4",
    "end failed",
    "end succeeded",
    "end succeeded",
    "job 1",
    "job 3",
    "mail 4",
  ];
  await eventually(async () => expect([...(await guarded.ran())].sort()).toEqual(wanted));
  expect((await guarded.refused()).map((letter) => letter.failure_class)).toEqual(["unknown"]);

  works = true;
  await guarded.put("notes", await guarded.take("notes.dlq"));

  await eventually(async () => expect(await guarded.ran()).toContain("job 2"));
  expect(await guarded.refused()).toEqual([]);
});

test("S7: what nobody signed, or somebody changed, is dead-lettered and never runs; the job whose id it bears does", async () => {
  await using guarded = await startGuardedLine();
  const signing = keyRing("k");
  const relay = guarded.startRelay({ signing });
  const first = await guarded.startWorker(["notes"], writesNotes, { signing });
  await first.stop();
  const id = await guarded.enqueue(1);
  const real = await guarded.take("notes");
  await relay.stop();
  expect(headersOf(real)["waybill-signature"]).toMatch(/^1:k:[\w-]{43}$/);
  const { "waybill-signature": signature, ...headers } = headersOf(real);
  const changed = (change: object, body = real.content): RawMessage => ({
    content: body,
    properties: { ...real.properties, ...change },
  });

  const forged = [
    changed({ headers }),
    changed({}, Buffer.from('{"n":666}')),
    changed({}, Buffer.from("{broken")),
    changed({ messageId: newJobId() }),
    changed({ type: "note.unknown" }),
    changed({
      expiration: "60000",
      headers: { ...headers, "waybill-signature": "1:other:" + "A".repeat(43) },
    }),
    changed({ headers: { ...headersOf(real), "waybill-dispatch": 1_000_000 } }),
    changed({ headers: { ...headersOf(real), "waybill-expires-at": 1_000_000_000_000 } }),
    changed({ headers: { ...headersOf(real), "waybill-on-terminal": "user.promote" } }),
    {
      content: Buffer.from('{"n":667}'),
      properties: { type: note.name, headers: { "waybill-signature": signature } },
    },
    { content: Buffer.from('{"n":668}'), properties: {} },
  ];
  for (const message of forged) await guarded.put("notes", message);
  await guarded.startWorker(["notes"], writesNotes, { signing });

  // Copies of one id and body are one dead letter.
  await eventually(async () => expect((await guarded.refused()).length).toBe(6));
  const refused = await guarded.refused();
  expect(refused.map((letter) => letter.failure_class)).toEqual(Array(6).fill("unauthentic"));
  expect(refused.map((letter) => letter.id)).not.toContain(id);
  expect(await guarded.ran()).toEqual([]);
  const left = "select id from waybill.inbox where id = $1 union all select id from waybill.timer";
  expect(await guarded.line.database.rows(left, [id])).toEqual([]);

  await guarded.put("notes", real);

  await eventually(async () => expect(await guarded.ran()).toEqual(["1"]));
});

test("S7: the dead letter of a refused message is signed by nobody, runs for nobody, and cannot be retried", async () => {
  await using guarded = await startGuardedLine();
  const signing = keyRing("k");
  guarded.startRelay({ signing });
  await guarded.startWorker(["notes"], writesNotes, { signing });

  await guarded.put("notes", { content: Buffer.from('{"n":1}'), properties: { type: note.name } });
  const dead = await guarded.take("notes.dlq");

  expect(dead.content.toString()).toBe('{"n":1}');
  expect(headersOf(dead)).toMatchObject({ "waybill-error-class": "unauthentic" });
  expect(headersOf(dead)).not.toHaveProperty("waybill-signature");
  const [letter] = await guarded.refused();
  await expect(guarded.line.jobs.retry(letter?.id ?? "")).rejects.toThrow(
    /Its message was refused since nobody vouches for it/,
  );

  await guarded.put("notes", dead);
  await eventually(async () => expect(await guarded.refused()).toHaveLength(2));
  await guarded.enqueue(2);
  await eventually(async () => expect(await guarded.ran()).toEqual(["2"]));
});

test("S7: a message that was signed for another queue does not run", async () => {
  await using guarded = await startGuardedLine();
  const signing = keyRing("k");
  guarded.startRelay({ signing });
  const first = await guarded.startWorker(["notes", "others"], writesNotes, { signing });
  await first.stop();
  await guarded.enqueue(1);
  const real = await guarded.take("notes");
  await guarded.put("others", real);

  await guarded.startWorker(["notes", "others"], writesNotes, { signing });

  await eventually(async () => expect(await guarded.refused()).toHaveLength(1));
  expect(await guarded.ran()).toEqual([]);
});

test("S7: a queue that accepts unsigned messages runs them, and still refuses a signature that does not fit", async () => {
  await using guarded = await startGuardedLine();
  const signing = keyRing("k");
  guarded.startRelay({ signing });
  await guarded.startWorker([], writesNotes, {
    signing,
    queues: { notes: { concurrency: 1, unsigned: "accept" } },
  });

  await guarded.put("notes", { content: Buffer.from('{"n":1}'), properties: { type: note.name } });
  await guarded.put("notes", {
    content: Buffer.from('{"n":2}'),
    properties: { type: note.name, headers: { "waybill-signature": `1:k:${"A".repeat(43)}` } },
  });

  await eventually(async () => expect(await guarded.refused()).toHaveLength(1));
  await eventually(async () => expect(await guarded.ran()).toEqual(["1"]));
});

test("S7: keys are changed without a message lost: workers first, then the relay, then the old key goes", async () => {
  await using guarded = await startGuardedLine();
  const old = `old:${Buffer.alloc(32, 1).toString("base64")}`;
  const fresh = `new:${Buffer.alloc(32, 2).toString("base64")}`;
  const relay = guarded.startRelay({ signing: createKeyRing(old) });
  await guarded.startWorker(["notes"], writesNotes, { signing: createKeyRing(`${fresh} ${old}`) });
  await guarded.enqueue(1);
  await eventually(async () => expect(await guarded.ran()).toEqual(["1"]));

  await relay.stop();
  guarded.startRelay({ signing: createKeyRing(fresh) });
  await guarded.enqueue(2);

  await eventually(async () => expect(await guarded.ran()).toEqual(["1", "2"]));
  expect(await guarded.refused()).toEqual([]);
});

test("S7: messages for others than workers bear no signature", async () => {
  await using guarded = await startGuardedLine();
  const { line, outbox } = guarded;
  guarded.startRelay({ signing: keyRing("k") });
  const running = await guarded.startWorker(["notes"], writesNotes);
  await running.stop();

  await line.transaction((tx) =>
    outbox.enqueue(
      tx,
      note,
      { n: 1 },
      { route: { exchange: "", routingKey: `${line.vhost.prefix}.notes` } },
    ),
  );

  expect(headersOf(await guarded.take("notes"))).not.toHaveProperty("waybill-signature");
});

test("S7: keys that are none, and words about unsigned messages without keys, are refused", () => {
  const create = (signing: unknown): unknown =>
    createWorker({
      database: pgDatabase<PoolClient>(new Pool()),
      databaseUrl: "postgres://localhost/x",
      broker: { url: "amqp://localhost" },
      queues: { notes: { concurrency: 1, unsigned: "accept" } },
      unsigned: "refuse",
      signing: signing as KeyRing,
    });

  expect(() => create("secret")).toThrow(/signing: expected a ring of keys made by createKeyRing/);
  expect(() => create(undefined)).toThrow(
    /- unsigned: has no meaning without signing\n.*- queues\.notes\.unsigned: has no meaning without signing/s,
  );
  expect(() => create(keyRing("k"))).not.toThrow();
});
