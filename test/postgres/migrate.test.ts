import { DatabaseUnavailableError, SchemaVersionError, silentLogger } from "@waybill/core";
import {
  migrate,
  migrations,
  requireSchemaVersion,
  schemaVersion,
  type SqlConnection,
  statementsFor,
} from "@waybill/postgres";
import { Client, type Pool } from "pg";
import { expect, test } from "vitest";
import { createPool, createTestDatabase, eventually } from "../support/index.ts";

const latest = migrations.length;
const names = migrations.map((migration) => migration.name);

const objects = async (pool: Pool, schema: string): Promise<number> => {
  const { rows } = await pool.query(
    "select from pg_class where relnamespace = to_regnamespace($1)",
    [schema],
  );
  return rows.length;
};

test("a new schema gets every migration once, with its hash, and is only read the next time", async () => {
  await using db = await createTestDatabase();
  const lines: string[] = [];
  const log = {
    ...silentLogger,
    info: (_fields: object, message: string) => void lines.push(message),
  };

  expect(await schemaVersion(db.pool)).toBe(0);
  await expect(requireSchemaVersion(db.pool)).rejects.toThrow(
    /holds no Waybill tables\. Run "waybill migrate"/,
  );
  const first = await migrate(db.pool, { log });
  const second = await migrate(db.pool, { log });

  expect(first).toEqual({ from: 0, to: latest, applied: names });
  expect(second).toEqual({ from: latest, to: latest, applied: [] });
  expect(lines).toEqual(names.map(() => "schema migrated"));
  expect(await schemaVersion(db.pool)).toBe(latest);
  await requireSchemaVersion(db.pool);
  expect(
    await db.rows("select version, name, hash from waybill.migration order by version"),
  ).toEqual(migrations.map(({ version, name, hash }) => ({ version, name, hash })));
});

test("H4: eight migrators at once on clients and pools run each migration once", async () => {
  await using db = await createTestDatabase({ poolSize: 8 });

  const results = await Promise.all(Array.from({ length: 8 }, () => migrate(db.pool)));

  expect(results.map((result) => result.to)).toEqual(Array.from({ length: 8 }, () => latest));
  expect(results.flatMap((result) => result.applied).toSorted()).toEqual(names.toSorted());
});

test("schemas live side by side in one database, also with a reserved word as name", async () => {
  await using db = await createTestDatabase();

  await Promise.all(["waybill", "user", "a_b_1"].map((schema) => migrate(db.pool, { schema })));

  for (const schema of ["waybill", "user", "a_b_1"]) {
    expect(await schemaVersion(db.pool, schema)).toBe(latest);
    const inside = await db.rows<{ source: string }>(
      `select p.prosrc as source from pg_proc as p where p.pronamespace = to_regnamespace($1)`,
      [`"${schema}"`],
    );
    const others = schema === "waybill" ? /"user"\.|"a_b_1"\./ : /waybill\.[a-z]/;
    for (const { source } of inside) expect(source).not.toMatch(others);
  }
});

test("H4: a migrator that is killed in the middle leaves whole migrations only, and the next one goes on", async () => {
  await using db = await createTestDatabase();
  await migrate(db.pool, { schema: "other" });

  for (let kill = 0; kill < latest; kill += 1) {
    const client = new Client({ connectionString: db.url, application_name: "migrator" });
    client.on("error", () => undefined);
    await client.connect();
    // Ends its own session inside the migration's transaction, after the migration's statements.
    let runs = 0;
    const dying: SqlConnection = {
      query: (statement) => {
        const isMigration = statement.text.includes("into waybill.migration");
        if (isMigration && runs === kill) {
          return client.query(`${statement.text}; select pg_terminate_backend(pg_backend_pid())`);
        }
        if (isMigration) runs += 1;
        return client.query({ ...statement });
      },
    };

    await expect(migrate(dying)).rejects.toThrow(/Cannot migrate|terminat/);

    await eventually(async () => {
      const left = await db.rows(
        "select from pg_stat_activity where application_name = 'migrator'",
      );
      return left.length === 0;
    });
    expect(await schemaVersion(db.pool)).toBe(kill);
    await db.pool.query("drop schema waybill cascade");
  }

  expect(await migrate(db.pool)).toMatchObject({ from: 0, to: latest });
  expect(await objects(db.pool, "waybill")).toBe(await objects(db.pool, "other"));
});

test("a schema from a newer package, or with another text, is refused and left alone", async () => {
  await using db = await createTestDatabase();
  await migrate(db.pool);

  await db.pool.query(
    "insert into waybill.migration (version, name, hash) values ($1, 'future', 'f')",
    [latest + 1],
  );
  const newer = migrate(db.pool);
  await expect(newer).rejects.toBeInstanceOf(SchemaVersionError);
  await expect(newer).rejects.toThrow(/this package knows up to .* Upgrade the @waybill packages/);
  await expect(requireSchemaVersion(db.pool)).rejects.toBeInstanceOf(SchemaVersionError);

  await db.pool.query("delete from waybill.migration where version > $1", [latest]);
  await db.pool.query("update waybill.migration set hash = repeat('0', 64) where version = 2");
  const changed = migrate(db.pool);
  await expect(changed).rejects.toBeInstanceOf(SchemaVersionError);
  await expect(changed).rejects.toThrow(/migration 2 \(inbox\) was run there with another text/);
});

test("a schema that is behind is refused at start, and brought up from where it is", async () => {
  await using db = await createTestDatabase();
  await db.pool.query(statementsFor().ensure_schema.text);
  for (const { version, name, hash, text } of migrations.slice(0, 3)) {
    await db.pool.query(text);
    await db.pool.query("insert into waybill.migration (version, name, hash) values ($1, $2, $3)", [
      version,
      name,
      hash,
    ]);
  }

  await expect(requireSchemaVersion(db.pool)).rejects.toThrow(/has version 3, this package needs/);
  expect(await migrate(db.pool)).toEqual({ from: 3, to: latest, applied: names.slice(3) });

  await requireSchemaVersion(db.pool);
});

test("a user without the privilege is told what to do, and one who owns the schema needs no more", async () => {
  await using db = await createTestDatabase();
  const role = `${db.name}_plain`;
  await db.pool.query(`create role "${role}" login password 'x'`);
  try {
    const url = new URL(db.url);
    url.username = role;
    url.password = "x";
    const pool = createPool(url.href);

    const refused = migrate(pool);
    await expect(refused).rejects.toBeInstanceOf(DatabaseUnavailableError);
    await expect(refused).rejects.toThrow(/lacks a privilege .*Migrate as the schema's owner/);

    await db.pool.query(`create schema waybill authorization "${role}"`);
    expect(await migrate(pool)).toMatchObject({ to: latest });
    await pool.end();
  } finally {
    await db.pool.query(`drop owned by "${role}" cascade; drop role "${role}"`);
  }
});

test("H4: a table that somebody else holds ends the wait after a while, with nothing changed", async () => {
  await using db = await createTestDatabase();
  await migrate(db.pool);
  await db.pool.query("delete from waybill.migration where version = $1", [latest]);
  const blocker = new Client({ connectionString: db.url });
  await blocker.connect();
  await blocker.query("begin; lock table waybill.migration in access exclusive mode");
  const impatient = createPool(db.url, 1);
  await impatient.query("set lock_timeout = '100ms'");

  const waiting = migrate(impatient);

  await expect(waiting).rejects.toThrow(
    /another transaction holds a lock .*Nothing was changed; try again/,
  );
  await blocker.end();
  await impatient.end();
});

test("a migration sets nothing on the session and leaves no transaction open", async () => {
  await using db = await createTestDatabase();
  const client = new Client({ connectionString: db.url });
  await client.connect();
  const session = async (): Promise<unknown> =>
    (
      await client.query(
        "select name, setting from pg_settings where source = 'session' order by name",
      )
    ).rows;
  const before = await session();

  await migrate(client);

  expect(await session()).toEqual(before);
  expect(client.getTransactionStatus()).toBe("I");
  await client.end();
});
