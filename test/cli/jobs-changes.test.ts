import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createMigratedDatabase, type TestDatabase } from "../support/index.ts";
import { runCli } from "./support.ts";

const definitions = fileURLToPath(new URL("modules/definitions.ts", import.meta.url));

interface Given extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly env: Readonly<Record<string, string>>;
  /** A job that is delayed for a minute. */
  readonly id: string;
  payload(): Promise<unknown>;
}

async function startDelayedJob(): Promise<Given> {
  const database = await createMigratedDatabase();
  const [row] = await database.rows<{ id: string }>(
    `select id from waybill.enqueue('[{"type":"email.welcome","queue":"emails","payload":{"to":"old@example.com"},"delay_ms":60000}]')`,
  );
  return {
    database,
    env: { DATABASE_URL: database.url },
    id: row?.id ?? "",
    async payload() {
      const [timer] = await database.rows<{ payload: string }>("select payload from waybill.timer");
      return JSON.parse(timer?.payload ?? "null");
    },
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

const edit = (id: string, payload: string, ...more: readonly string[]): readonly string[] => [
  "jobs",
  "edit",
  id,
  "--payload",
  payload,
  ...more,
];

test("a payload is checked by the schema of the definition in a module before it is written", async () => {
  await using given = await startDelayedJob();
  const { id, env } = given;
  const file = fileURLToPath(new URL("modules/payload.json", import.meta.url));

  const refused = await runCli(edit(id, '{"to":"nobody"}', "--module", definitions, "--yes"), env);
  const kept = await given.payload();
  const done = await runCli(edit(id, `@${file}`, "--module", definitions, "--yes"), env);

  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/Cannot accept the payload of job "email\.welcome": to:/);
  expect(kept).toEqual({ to: "old@example.com" });
  expect(done).toMatchObject({ code: 0, stdout: `${id} edited` });
  expect(await given.payload()).toEqual({ to: "file@example.com" });
});

test("without a module an edit has to say that nothing checks it", async () => {
  await using given = await startDelayedJob();
  const { id, env } = given;

  const unsaid = await runCli(edit(id, '{"to":1}', "--yes"), env);
  const both = await runCli(edit(id, "{}", "--module", definitions, "--no-validate", "--yes"), env);
  const unasked = await runCli(edit(id, '{"to":1}', "--no-validate"), env);
  const noJson = await runCli(edit(id, "{to:1}", "--no-validate", "--yes"), env);
  const kept = await given.payload();
  const done = await runCli(edit(id, '{"to":1}', "--no-validate", "--yes", "--json"), env);

  expect([unsaid, both, unasked, noJson].map(({ code }) => code)).toEqual([2, 2, 2, 2]);
  expect(unsaid.stderr).toMatch(/--module: is needed .* or say --no-validate/);
  expect(unasked.stderr).toMatch(/--yes: is needed/);
  expect(noJson.stderr).toMatch(/--payload: expected JSON/);
  expect(kept).toEqual({ to: "old@example.com" });
  expect(done.json()).toEqual({ id, action: "edited" });
  expect(await given.payload()).toEqual({ to: 1 });
});

test("a module without the job's definition is refused with the one that was meant", async () => {
  await using given = await startDelayedJob();
  await given.database.rows("update waybill.timer set type = 'email.welcom'");

  const slip = await runCli(edit(given.id, "{}", "--module", definitions, "--yes"), given.env);

  expect(slip.code).toBe(2);
  expect(slip.stderr).toMatch(
    /exports no definition of "email\.welcom"; did you mean email\.welcome\?/,
  );
});

test("priority and time of a waiting job are changed, and each act is kept", async () => {
  await using given = await startDelayedJob();
  const { id, env, database } = given;

  const lower = await runCli(["jobs", "priority", id, "-3", "--reason", "can wait"], env);
  const later = await runCli(["jobs", "delay", id, "--until", "2099-01-31T08:00:00Z"], env);
  const sooner = await runCli(["jobs", "delay", id, "--for", "10m", "--json"], env);
  const now = await runCli(["jobs", "retry", id], env);
  const shown = await runCli(["jobs", "show", id], env);

  expect(lower).toMatchObject({ code: 0, stdout: `${id} has priority -3` });
  expect(later.stdout).toBe(`${id} delayed until 2099-01-31T08:00:00.000Z`);
  expect(sooner.json()).toMatchObject({ id, action: "delayed" });
  expect(now.stdout).toBe(`${id} released`);
  expect(shown.stdout).toMatch(/^priority +-3$/m);
  expect(shown.stdout).toMatch(/Z reprioritise by cli\S*: priority -3: can wait$/m);
  expect(shown.stdout).toMatch(/Z delay by cli\S*: until 2099-01-31T08:00:00\.000Z$/m);
  expect(await database.rows("select from waybill.timer where fire_at <= now()")).toHaveLength(1);
});

test("what cannot be read, and a job that waits nowhere, is refused", async () => {
  await using given = await startDelayedJob();
  const { id, env } = given;

  const usage = [
    await runCli(["jobs", "priority", id, "101"], env),
    await runCli(["jobs", "delay", id], env),
    await runCli(["jobs", "delay", id, "--for", "10", "--until", "2099-01-31T08:00:00Z"], env),
    await runCli(["jobs", "delay", id, "--until", "tomorrow"], env),
  ];
  await runCli(["jobs", "cancel", id, "--yes"], env);
  const ended = await runCli(["jobs", "delay", id, "--for", "10m"], env);

  expect(usage.map(({ code }) => code)).toEqual([2, 2, 2, 2]);
  expect(ended.code).toBe(1);
  expect(ended.stderr).toMatch(/Cannot move job \S+ from cancelled to delayed/);
});
