/** Names that lead to a prototype, at every edge where somebody else's data comes in: S4. */

import { ConfigError, defineJob, HeadersError, PayloadError } from "@waybill/core";
import { createOutbox, pgDatabase } from "@waybill/postgres";
import { createRelay } from "@waybill/relay";
import { createWorker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, startProcess } from "../support/index.ts";
import { startGuardedLine, write } from "./guarded-line.ts";

const trap = '{"polluted":true}';
const traps = [
  `{"n":1,"__proto__":${trap}}`,
  `{"n":1,"\\u005f\\u005fproto__":${trap}}`,
  `{"n":1,"constructor":{"prototype":${trap}}}`,
  `{"n":1,"a":[{"b":{"__proto__":${trap}}}]}`,
];

function expectClean(): void {
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
}

const loose = defineJob({ name: "any", queue: "notes", payload: z.looseObject({ n: z.int() }) });

/** What a careless handler does: merges the payload into an object of its own, at every depth. */
function merge(into: Record<string, unknown>, from: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(from)) {
    if (typeof value !== "object" || value === null) into[key] = value;
    else merge((into[key] ??= {}) as Record<string, unknown>, value as Record<string, unknown>);
  }
}

test("S4: a message's body and headers pollute nothing, also where the handler merges them", async () => {
  await using guarded = await startGuardedLine();
  await guarded.startWorker(["notes"], (worker) =>
    worker.handleInTransaction(loose, async (job, tx) => {
      merge({}, job.payload);
      merge({}, job.headers);
      await write(tx, Object.keys(job.payload).join());
    }),
  );

  for (const body of traps) {
    await guarded.put("notes", {
      content: Buffer.from(body),
      properties: {
        type: "any",
        headers: JSON.parse(`{"__proto__":"x","constructor":{"prototype":${trap}},"toString":"x"}`),
      },
    });
  }
  for (const type of ["constructor", "__proto__", "toString", "hasOwnProperty"]) {
    await guarded.put("notes", { content: Buffer.from("{}"), properties: { type } });
  }

  await eventually(async () => expect((await guarded.ran()).length).toBe(traps.length));
  expect((await guarded.ran()).toSorted()).toEqual(["n", "n", "n", "n,a"]);
  await eventually(async () =>
    expect(
      await guarded.line.database.rows("select from waybill.timer where reason = 'no_handler'"),
    ).toHaveLength(4),
  );
  expectClean();
});

test("S4: a producer's payload, headers and options with such names are refused, and nothing is written", async () => {
  await using guarded = await startGuardedLine();
  const { line, outbox } = guarded;

  await line.transaction(async (tx) => {
    for (const body of traps) {
      const payload = JSON.parse(body) as { n: number };
      await expect(outbox.enqueue(tx, loose, payload)).rejects.toBeInstanceOf(PayloadError);
    }
    await expect(
      outbox.enqueue(tx, loose, { n: 1 }, { headers: JSON.parse('{"__proto__":"x"}') }),
    ).rejects.toBeInstanceOf(HeadersError);
    await expect(
      outbox.enqueue(tx, loose, { n: 1 }, JSON.parse(`{"__proto__":${trap}}`)),
    ).rejects.toBeInstanceOf(ConfigError);
  });

  expect(await line.database.rows("select from waybill.outbox")).toEqual([]);
  expectClean();
});

test("S4: options with such names are refused or without effect", () => {
  const extra = JSON.parse(`{"__proto__":${trap},"constructor":{"prototype":${trap}}}`) as object;
  const options = {
    databaseUrl: "postgres://localhost/x",
    broker: { url: "amqp://localhost" },
    queues: { notes: { concurrency: 1 } },
    database: pgDatabase<PoolClient>({} as never),
  };
  const { queues: _queues, database: _database, ...ofRelay } = options;

  expect(() => createWorker(Object.assign({ ...options }, extra))).toThrow(ConfigError);
  expect(() => createRelay(Object.assign({ ...ofRelay }, extra))).toThrow(ConfigError);
  expect(() => createOutbox(Object.assign({ database: options.database }, extra))).toThrow(
    ConfigError,
  );
  const worker = createWorker({
    ...options,
    queues: JSON.parse('{"__proto__":{"concurrency":1}}'),
  });
  expect(worker.status().queues).toEqual([]);
  expectClean();
});

test("S4: the packages change no prototype of the language", async () => {
  await using child = await startProcess(new URL("prototypes-process.ts", import.meta.url));

  const line = await child.waitForLine(/^loaded/, { deadlineMs: 100_000 });
  expect(line).toBe("loaded 7 packages, changed 0 prototypes");
});
