import { jobStates } from "@waybill/core";
import { defaultSchema, statementsFor } from "@waybill/postgres";
import { expect, test } from "vitest";
import { startApplication } from "./application.ts";

/** The catalog as text: the same from PostgreSQL 15 on, which pg_dump's output is not. */
const catalog = [
  `select format('table %s%s%s', c.oid::regclass,
     coalesce(' partition by ' || pg_get_partkeydef(c.oid), ''), coalesce(' with ' || c.reloptions::text, ''))
   from pg_class as c
   where c.relnamespace = 'waybill'::regnamespace and c.relkind in ('r', 'p')`,
  `select format('column %s.%s %s%s%s', c.oid::regclass, a.attname, format_type(a.atttypid, a.atttypmod),
     case when a.attnotnull then ' not null' else '' end,
     coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') || case a.attidentity when '' then '' else ' identity' end)
   from pg_attribute as a
   join pg_class as c on c.oid = a.attrelid
   left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where c.relnamespace = 'waybill'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
     and a.attnum > 0 and not a.attisdropped`,
  // PostgreSQL 18 lists not-null constraints too; they are columns above.
  `select format('constraint %s %s %s', k.conrelid::regclass, k.conname, pg_get_constraintdef(k.oid))
   from pg_constraint as k
   join pg_class as c on c.oid = k.conrelid
   where k.connamespace = 'waybill'::regnamespace and k.contype <> 'n' and not c.relispartition`,
  `select format('index %s', pg_get_indexdef(i.indexrelid))
   from pg_index as i
   join pg_class as c on c.oid = i.indrelid
   where c.relnamespace = 'waybill'::regnamespace and not c.relispartition`,
  `select format('function %s(%s) returns %s, %s%s', p.proname, pg_get_function_arguments(p.oid),
     pg_get_function_result(p.oid), case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
     coalesce(', ' || p.proconfig::text, ''))
   from pg_proc as p
   where p.pronamespace = 'waybill'::regnamespace`,
];

test("the schema is the one that was reviewed", async () => {
  await using app = await startApplication();

  const lines: string[] = [];
  for (const text of catalog) {
    const rows = await app.db.rows<{ format: string }>(text);
    lines.push(...rows.map((row) => row.format).toSorted());
  }

  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("schema.golden.txt");
});

test("every table, view, column and function carries a comment", async () => {
  await using app = await startApplication();

  const silent = await app.db.rows(
    `select c.oid::regclass::text || '.' || a.attname as name
     from pg_class as c
     join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = 'waybill'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
       and col_description(c.oid, a.attnum) is null
     union all
     select c.oid::regclass::text
     from pg_class as c
     where c.relnamespace = 'waybill'::regnamespace and c.relkind in ('r', 'p', 'v') and obj_description(c.oid) is null
     union all
     select p.oid::regprocedure::text
     from pg_proc as p
     where p.pronamespace = 'waybill'::regnamespace and obj_description(p.oid) is null`,
  );

  expect(silent).toEqual([]);
});

test("the inbox knows exactly the six states of the state machine", async () => {
  await using app = await startApplication();

  const [row] = await app.db.rows<{ definition: string }>(
    "select pg_get_constraintdef(oid) as definition from pg_constraint where conname = 'inbox_state_known' and conrelid = 'waybill.inbox'::regclass",
  );

  const states = [...(row?.definition ?? "").matchAll(/'([a-z_]+)'/g)].map((match) => match[1]);
  expect(states).toEqual(jobStates);
});

test("the inbox has no index but its key, so that its updates stay in their page", async () => {
  await using app = await startApplication();

  const indexes = await app.db.rows(
    "select indexrelid::regclass::text as name from pg_index where indrelid = 'waybill.inbox'::regclass",
  );

  expect(indexes).toEqual([{ name: "waybill.inbox_pkey" }]);
});

test("every function pins its search_path", async () => {
  await using app = await startApplication();

  const loose = await app.db.rows(
    `select p.oid::regprocedure::text as name from pg_proc as p
     where p.pronamespace = 'waybill'::regnamespace
       and not coalesce(p.proconfig::text like '%search_path=pg_catalog, pg_temp%', false)`,
  );

  expect(loose).toEqual([]);
});

/** Statements that may run on the transaction of an application, through any data layer. */
const onEveryLayer = [
  "enqueue_jobs",
  "get_jobs",
  "list_jobs",
  "count_jobs",
  "cancel_job",
  "retry_job",
  "release_job",
  "list_dead_letters",
  "guard_lease",
  "tell_watchers",
  "watch_jobs",
  "renew_watches",
  "unwatch_jobs",
  "read_watched",
  "notify_jobs",
] as const;

test.each(onEveryLayer)("%s keeps to what every data layer passes on", (name) => {
  const { text } = statementsFor(defaultSchema)[name];

  const placeholders = [...text.matchAll(/\$(\d+)/g)].map((match) => Number(match[1]));
  expect(placeholders).toEqual(placeholders.map((_, index) => index + 1));
  expect(text.match(/\$\d+(?!::text)/g)).toBeNull();
  expect(text).not.toContain("?");
  expect(text).not.toContain(";");
  expect(text.replaceAll("::", "")).not.toMatch(/:[a-z]/);
});

test("every statement names the schema everywhere and leaves the search path alone", () => {
  for (const { name, text } of Object.values(statementsFor("elsewhere"))) {
    expect(text, name).not.toMatch(/\bwaybill\.[a-z]/);
    expect(text, name).not.toMatch(/search_path/);
  }
});
