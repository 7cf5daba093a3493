/** A schema of its own name with its roles, and a login for each of them: all of it goes at the end. */

import { randomBytes } from "node:crypto";
import { grantRoles, migrate, roleNames } from "@waybill/postgres";
import { Client, type Pool } from "pg";
import { inject } from "vitest";
import { createPool, createTestDatabase, type TestDatabase } from "../../support/index.ts";

/** The parts of Waybill that have a role. */
export type Part = "app" | "relay" | "worker" | "operator" | "viewer";
/** See {@link Part}. */
export const parts: readonly Part[] = ["app", "relay", "worker", "operator", "viewer"];

/** See the head of the file. */
export interface RolePlace extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly schema: string;
  /** URL of the schema's owner. */
  readonly ownerUrl: string;
  /** URL of a login that is a member of the part's role and of nothing else. */
  urlOf(part: Part): string;
  /** Connections of that login. */
  poolOf(part: Part): Pool;
  /** A statement of the tests for this schema: the token `waybill.` stands for it. */
  sql(text: string): string;
}

async function asAdministrator(statements: readonly string[]): Promise<void> {
  const client = new Client({ connectionString: inject("databaseUrl") });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Migrates a schema and grants its roles, as `waybill migrate --roles` does, as a login that is no superuser. */
export async function startRolePlace(): Promise<RolePlace> {
  const schema = `s17_${randomBytes(4).toString("hex")}`;
  const database = await createTestDatabase();
  const ends = new AsyncDisposableStack();
  const loginOf = (name: string): string => `${schema}_${name}_login`;
  const urlAs = (name: string): string => {
    const url = new URL(database.url);
    url.username = loginOf(name);
    url.password = schema;
    return url.href;
  };
  ends.defer(() =>
    asAdministrator(
      [...roleNames(schema), ...["owner", ...parts].map(loginOf)].map(
        (role) => `drop role if exists "${role}"`,
      ),
    ),
  );
  // Before the roles: nothing may refer to them any more.
  ends.use(database);
  await asAdministrator([
    `create role "${loginOf("owner")}" login createrole password '${schema}'`,
    `grant create on database "${database.name}" to "${loginOf("owner")}"`,
  ]);
  const owner = createPool(urlAs("owner"), 1);
  await migrate(owner, { schema });
  await grantRoles(owner, { schema });
  await owner.end();
  await asAdministrator(
    parts.flatMap((part) => [
      `create role "${loginOf(part)}" login password '${schema}'`,
      `grant "${schema}_${part}" to "${loginOf(part)}"`,
    ]),
  );
  const pools = new Map<Part, Pool>();
  return {
    database,
    schema,
    ownerUrl: urlAs("owner"),
    urlOf: urlAs,
    poolOf(part) {
      const pool = pools.get(part) ?? createPool(urlAs(part), 30);
      if (!pools.has(part)) ends.defer(() => pool.end());
      pools.set(part, pool);
      return pool;
    },
    sql: (text) => text.replaceAll("waybill.", `"${schema}".`),
    [Symbol.asyncDispose]: () => ends.disposeAsync(),
  };
}
