/** Each database role is let do its part, and nothing else. */

import { grantRoles, type QueryName, statementsFor } from "@waybill/postgres";
import { expect, test } from "vitest";
import { runCli } from "../cli/support.ts";
import { type Part, parts, type RolePlace, startRolePlace } from "./support/database-roles.ts";
import { statementsByRole, withoutPlan } from "./support/statements-by-role.ts";

/** What the server says of a statement's rights, without running it; undefined: allowed. */
async function refusalOf(
  place: RolePlace,
  part: Part,
  name: QueryName,
): Promise<string | undefined> {
  const { text } = statementsFor(place.schema)[name];
  const count = Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map((match) => Number(match[1])));
  const values = count === 0 ? "" : `(${Array.from({ length: count }, () => "null").join(", ")})`;
  const client = await place.poolOf(part).connect();
  try {
    await client.query(`prepare asked as ${text}`);
    // Rights are looked at when a statement is made ready to run, which a plan is.
    await client.query(`explain execute asked${values}`);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await client.query("deallocate all");
    client.release();
  }
}

test("S17: every statement of a part is within the rights of its role, and every statement belongs to a part", async () => {
  await using place = await startRolePlace();

  const refused: string[] = [];
  for (const part of parts) {
    for (const name of statementsByRole[part]) {
      const refusal = await refusalOf(place, part, name);
      if (refusal !== undefined) refused.push(`${part}: ${name}: ${refusal}`);
    }
  }
  // An operator is let see all that a viewer sees.
  for (const name of statementsByRole.viewer) {
    const refusal = await refusalOf(place, "operator", name);
    if (refusal !== undefined) refused.push(`operator: ${name}: ${refusal}`);
  }

  const assigned = new Set<string>([...Object.values(statementsByRole).flat(), ...withoutPlan]);
  expect(refused).toEqual([]);
  expect(Object.keys(statementsFor(place.schema)).filter((name) => !assigned.has(name))).toEqual(
    [],
  );
});

const payloads: readonly (readonly [table: string, column: string])[] = [
  ["outbox", "payload"],
  ["outbox", "headers"],
  ["timer", "payload"],
  ["timer", "headers"],
  ["backlog", "payload"],
  ["dead_letter", "payload"],
  ["dead_letter", "headers"],
  ["checkpoint", "checkpoint"],
  ["result", "result"],
  ["job", "payload"],
  ["job", "headers"],
  ["job", "result"],
];

/** What a role must not do: statements on the schema `waybill`. */
const forbidden: Readonly<Record<Part, readonly string[]>> = {
  app: [
    "select id from waybill.outbox",
    "insert into waybill.outbox (id, queue, type, payload) values (gen_random_uuid(), 'q', 't', '1')",
    "update waybill.timer set fire_at = now()",
    "delete from waybill.idempotency_key",
    "select state from waybill.inbox",
    "select state from waybill.job",
    "select nextval('waybill.outbox_seq')",
  ],
  relay: [
    "insert into waybill.inbox (id, queue, type, state, dispatch) values (gen_random_uuid(), 'q', 't', 'running', 1)",
    "update waybill.inbox set state = 'succeeded'",
    "update waybill.queue set paused_at = now()",
    "update waybill.dead_letter set payload = '1'",
    "update waybill.audit_log set actor = 'nobody'",
    "update waybill.migration set hash = ''",
    "select * from waybill.enqueue('[]')",
    // The functions that make and drop partitions run with the owner's rights, on partitions alone.
    "select waybill.drop_outbox_partition('dead_letter', pg_current_snapshot())",
    "select waybill.drop_outbox_partition('outbox_default', pg_current_snapshot())",
    "select waybill.drop_inbox_partition('inbox_default', now(), 100)",
    "select waybill.drop_inbox_partition('audit_log', now(), 100)",
    `select waybill.create_outbox_partition('x"; drop table waybill.queue; --', now(), now() + interval '1 day', 1)`,
    "select waybill.create_inbox_partition('queue', now(), now() + interval '1 day', 1)",
  ],
  worker: [
    "update waybill.outbox set payload = '1'",
    "delete from waybill.outbox",
    "delete from waybill.inbox",
    "update waybill.relay set holder = null",
    "update waybill.failure set message = ''",
    "delete from waybill.audit_log",
    "select key from waybill.idempotency_key",
    "select waybill.drop_outbox_partition('outbox_20200101', pg_current_snapshot())",
  ],
  operator: [
    "delete from waybill.outbox",
    "delete from waybill.inbox",
    "delete from waybill.audit_log",
    "update waybill.audit_log set actor = 'nobody'",
    "update waybill.failure set message = ''",
    "update waybill.relay set snapshot = null",
    "update waybill.outbox set tx = '3'",
    "update waybill.worker set lease_until = now()",
    "select waybill.drop_inbox_partition('inbox_20200101', now(), 1)",
    "select * from waybill.enqueue('[]')",
  ],
  viewer: [
    ...payloads.map(([table, column]) => `select ${column} from waybill.${table}`),
    "select * from waybill.job",
    "select o::text from waybill.outbox as o",
    "update waybill.queue set paused_at = now()",
    "delete from waybill.timer",
    "select waybill.erase_job(gen_random_uuid(), 'a', '')",
    "select * from waybill.enqueue('[]')",
  ],
};

const ofOwner = [
  "create table waybill.extra (n integer)",
  "drop table waybill.queue",
  "alter table waybill.outbox add column extra text",
  "truncate waybill.failure",
  "create or replace function waybill.new_id() returns uuid language sql as 'select null::uuid'",
  "alter table waybill.outbox owner to current_user",
];

test.each(parts)("S17: the role of the %s is refused what is not its part", async (part) => {
  await using place = await startRolePlace();
  const pool = place.poolOf(part);
  const tried = [
    ...forbidden[part],
    ...ofOwner,
    ...(part === "operator" ? [] : ["select waybill.erase_job(gen_random_uuid(), 'a', '')"]),
  ];

  const outcomes: string[] = [];
  for (const text of tried) {
    const outcome = await pool.query(place.sql(text)).then(
      () => "done",
      (error: unknown) => String((error as { code?: unknown }).code),
    );
    // 42P01 and 22023: what is no partition.
    if (!["42501", "42P01", "22023"].includes(outcome)) outcomes.push(`${text}: ${outcome}`);
  }

  expect(outcomes).toEqual([]);
  await expect(grantRoles(pool, { schema: place.schema })).rejects.toMatchObject({
    code: "WAYBILL_DATABASE_UNAVAILABLE",
    message: expect.stringMatching(/lacks a privilege/),
  });
});

test("S17: functions that run with their owner's rights are these seven, pin their search_path, and are not for everybody", async () => {
  await using place = await startRolePlace();

  const rows = await place.database.rows<{ name: string; config: string[]; everybody: boolean }>(
    `select p.proname as name, p.proconfig as config, has_function_privilege('public', p.oid, 'execute') as everybody
     from pg_proc as p
     where p.pronamespace = $1::regnamespace and p.prosecdef
     order by p.proname`,
    [place.schema],
  );

  expect(rows.map(({ name }) => name)).toEqual([
    "create_inbox_partition",
    "create_outbox_partition",
    "drop_inbox_partition",
    "drop_outbox_partition",
    "enqueue",
    "erase_job",
    "is_orphan",
  ]);
  for (const { name, config, everybody } of rows) {
    expect(config, name).toContain("search_path=pg_catalog, pg_temp");
    expect(everybody, name).toBe(false);
  }
});

test("S17: granting the roles again changes nothing, and brings back what somebody took away or added", async () => {
  await using place = await startRolePlace();
  const env = { DATABASE_URL: place.ownerUrl, WAYBILL_SCHEMA: place.schema };
  const rightsOf = (): Promise<Record<string, unknown>[]> =>
    place.database.rows(
      `select c.relname, c.relacl::text, (
         select array_agg(a.attname || a.attacl::text order by a.attname)
         from pg_attribute as a where a.attrelid = c.oid and a.attacl is not null
       ) as columns
       from pg_class as c where c.relnamespace = $1::regnamespace order by c.relname`,
      [place.schema],
    );
  const before = await rightsOf();
  await place.database.rows(place.sql(`revoke select on waybill.timer from ${place.schema}_relay`));
  await place.database.rows(place.sql(`grant delete on waybill.outbox to ${place.schema}_app`));

  const dry = await runCli(["migrate", "--roles", "--dry-run", "--json"], env);
  const again = await runCli(["migrate", "--roles"], env);

  expect(dry.json()).toMatchObject({
    dryRun: true,
    roles: parts.map((p) => `${place.schema}_${p}`),
  });
  expect(again).toMatchObject({ code: 0 });
  expect(await rightsOf()).toEqual(before);
});
