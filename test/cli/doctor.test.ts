import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  createMigratedDatabase,
  createTestDatabase,
  createTestVhost,
  eventually,
  type TestVhost,
} from "../support/index.ts";
import { type CliResult, runCli, startCli } from "./support.ts";
import { addWorker } from "../support/worker-row.ts";

interface Finding {
  readonly check: string;
  readonly status: string;
  readonly message: string;
  readonly remedy?: string;
}

const findingsOf = (result: CliResult): Finding[] => result.json()["findings"] as Finding[];

/** Management URL with the broker's credentials. */
function managementOf(vhost: TestVhost): string {
  const { username, password } = new URL(vhost.url);
  return Object.assign(new URL(vhost.management.url), {
    username: username || "guest",
    password: password || "guest",
  }).href;
}

test("with relay, worker and topology in place the doctor finds no problem", async () => {
  await using database = await createMigratedDatabase();
  await using vhost = await createTestVhost();
  await database.rows("create table sent (email text)");
  const env = {
    DATABASE_URL: database.url,
    RABBITMQ_URL: vhost.url,
    WAYBILL_PREFIX: vhost.prefix,
    RABBITMQ_MANAGEMENT_URL: managementOf(vhost),
  };
  await using relay = await startCli(["relay", "--name", "relay-1"], env);
  const module = fileURLToPath(new URL("modules/emails.ts", import.meta.url));
  await using worker = await startCli(["worker", module, "--name", "worker-1"], env);
  await database.rows(
    `select * from waybill.enqueue('[{"type":"email.welcome","queue":"emails","payload":{"to":"ada"}}]')`,
  );
  await eventually(async () => (await database.rows("select from sent")).length === 1, {
    deadlineMs: 25_000,
  });

  const programs = await eventually(
    async () => {
      const result = await runCli(["doctor", "--json"], env);
      expect(findingsOf(result).filter(({ status }) => status === "problem")).toEqual([]);
      return result;
    },
    { deadlineMs: 20_000 },
  );
  const people = await runCli(["doctor"], env);

  expect(programs.code).toBe(0);
  expect(programs.json()).toMatchObject({ ok: true, problems: 0 });
  const messages = findingsOf(programs).map(({ check, message }) => `${check}: ${message}`);
  expect(messages).toContain("relay: relay-1 holds the term");
  expect(messages).toContain("workers: 1 alive, on emails");
  expect(messages).toContain("outbox: everything is published");
  expect(messages.join("\n")).toMatch(/retention: the outbox has \d+ MiB in \d+ partitions/);
  expect(people.code).toBe(0);
  expect(people.stdout).toMatch(/^ok +server: PostgreSQL/);
  expect(people.stderr).toContain("No problem found.");
  expect([relay.hasExited, worker.hasExited]).toEqual([false, false]);
});

test("everything that waits for somebody is a problem with the command that mends it", async () => {
  await using database = await createMigratedDatabase();
  await using vhost = await createTestVhost();
  const released = randomUUID();
  const park = async (id: string, queue: string, fireAt: string, reason: string): Promise<void> => {
    await database.rows(
      `insert into waybill.timer (id, queue, kind, fire_at, reason, detail, type, payload)
       values ($1, $2, 'job', $3::timestamptz, $4, 'as the test says', 'email.welcome', '{}')`,
      [id, queue, fireAt, reason],
    );
  };
  await park(released, "emails", "infinity", "refused");
  await park(randomUUID(), "emails", "2999-01-01", "no_handler");
  await park(randomUUID(), "letters", "2999-01-01", "unroutable");
  await park(randomUUID(), "parcels", "2020-01-01", "retry");
  await database.rows(
    `select * from waybill.enqueue('[{"type":"email.welcome","queue":"emails"}]')`,
  );
  await database.rows("update waybill.outbox set created_at = now() - interval '5 minutes'");
  await database.rows(
    `insert into waybill.dead_letter (id, queue, type, attempts, failure_class, message, fingerprint, payload, enqueued_at)
     values ($1, 'emails', 'email.welcome', 3, 'validation', 'no such customer', 'f1', '{}', now())`,
    [randomUUID()],
  );

  const result = await runCli(["doctor", "--json"], {
    DATABASE_URL: database.url,
    RABBITMQ_URL: vhost.url,
    WAYBILL_PREFIX: vhost.prefix,
  });

  expect(result.code).toBe(4);
  const findings = findingsOf(result);
  const lines = findings.map(
    ({ check, status, message, remedy }) => `${status} ${check}: ${message} -> ${remedy ?? ""}`,
  );
  for (const line of [
    /^problem relay: no relay holds the term.* -> .*waybill relay/,
    /^problem outbox: 1 row not published, the oldest for 5 min -> .*waybill relay/,
    /^problem workers: no worker is alive.* -> .*waybill worker/,
    new RegExp(
      `^problem parked: queue emails: 1 message parked until an operator.*refused.*as the test says -> .*waybill jobs retry ${released}`,
    ),
    /^problem parked: queue emails: no worker handles version 1 of email\.welcome: 1 message parked as no_handler, .* -> deploy a worker that handles version 1 of email\.welcome; they go on/,
    /^problem parked: queue letters: 1 message parked as unroutable.* -> .*waybill topology apply/,
    /^problem timers: queue parcels: 1 timer \(retry\) due for more than a minute -> .*waybill relay/,
    /^notice dead letters: queue emails: 1 \(validation\) no such customer -> .*waybill dead retry --queue emails/,
    /^problem topology: missing: exchange .* -> waybill topology apply/,
    /^skipped policies: .* -> set RABBITMQ_MANAGEMENT_URL/,
  ]) {
    expect(lines).toContainEqual(expect.stringMatching(line));
  }
});

test("the doctor names what is wrong with workers and with what dead ones left behind", async () => {
  await using database = await createMigratedDatabase();
  await using vhost = await createTestVhost();
  const ago = (ms: number): Date => new Date(Date.now() - ms);
  const alive = await addWorker(database, "busy", {
    blocked_ms: 45_000,
    blocked_by: "email.welcome",
  });
  await addWorker(database, "slow-drain", {
    state: "draining",
    running: 2,
    stop_requested: "drain",
    stop_requested_at: ago(7_200_000),
    stop_requested_by: "anna",
    queues: ["letters"],
  });
  await addWorker(database, "frozen", {
    stop_requested: "restart",
    stop_requested_at: ago(180_000),
    stop_requested_by: "bert",
    version: "1.3.0",
  });
  const dead = await addWorker(database, "dead", {
    lease_until: ago(300_000),
    heartbeat_at: ago(310_000),
  });
  const justDied = await addWorker(database, "just-died", { lease_until: ago(5_000) });
  const [orphan, fresh, mine] = [randomUUID(), randomUUID(), randomUUID()];
  for (const [id, owner] of [
    [orphan, dead],
    [fresh, justDied],
    [mine, alive],
  ]) {
    await database.rows(
      `insert into waybill.inbox (id, queue, type, state, dispatch, owner, started_at)
       values ($1, 'emails', 'email.welcome', 'running', 1, $2, now() - interval '1 day')`,
      [id, owner],
    );
    await database.rows(
      `insert into waybill.timer (id, queue, kind, dispatch, fire_at, reason, owner, type, payload)
       values ($1, 'emails', 'job', 2, 'infinity', 'lease', $2, 'email.welcome', '{}')`,
      [id, owner],
    );
  }
  for (const version of [2, 2, 3]) {
    await database.rows(
      `insert into waybill.timer (id, queue, kind, fire_at, reason, parked_at, type, version, payload)
       values ($1, 'emails', 'job', '2999-01-01', 'no_handler', now() - interval '3 hours', 'email.welcome', $2, '{}')`,
      [randomUUID(), version],
    );
  }

  const result = await runCli(["doctor", "--json"], {
    DATABASE_URL: database.url,
    RABBITMQ_URL: vhost.url,
    WAYBILL_PREFIX: vhost.prefix,
  });

  const lines = findingsOf(result).map(
    ({ check, status, message, remedy }) => `${status} ${check}: ${message} -> ${remedy ?? ""}`,
  );
  for (const line of [
    /^ok workers: 3 alive, 2 of them draining, on emails, letters/,
    /^problem workers: queue letters: every worker that consumes it drains -> .*waybill workers restart/,
    /^problem event loop: busy \S{8}: .* 45 s, blocked by email\.welcome.* -> .*isolation: "thread"/,
    /^notice drains: slow-drain \S{8} drains since anna asked 2 h ago and still runs 2 jobs/,
    /^problem drains: frozen \S{8} has not begun to drain since bert asked 3 min ago/,
    /^notice versions: .*1\.2\.3 \(2 workers\), 1\.3\.0 \(1 worker\)/,
    new RegExp(
      `^problem leases: queue emails: 1 lease of dead workers, .* for example job ${orphan} -> the relay's sweep`,
    ),
    new RegExp(
      `^problem running jobs: queue emails: 1 job whose worker is dead, .* for example ${orphan} -> `,
    ),
    /^problem parked: queue emails: no worker handles version 2 of email\.welcome: 2 messages .* for 3 h -> deploy a worker that handles version 2/,
    /^problem parked: queue emails: no worker handles version 3 of email\.welcome: 1 message /,
  ]) {
    expect(lines).toContainEqual(expect.stringMatching(line));
  }
  // The leases have no time either, but nobody needs to release them.
  expect(lines.filter((line) => /until an operator/.test(line))).toEqual([]);
  expect(lines.join("\n")).not.toMatch(new RegExp(`${fresh}|${mine}`));
});

test("a database or a broker that cannot be used is a finding, and the other is still looked at", async () => {
  await using database = await createTestDatabase();
  await using vhost = await createTestVhost();
  const urls = {
    DATABASE_URL: database.url,
    RABBITMQ_URL: vhost.url,
    WAYBILL_PREFIX: vhost.prefix,
  };
  const away = "://waybill:canary-pa55word@127.0.0.1:1";

  const noDatabase = await runCli(["doctor", "--json"], {
    ...urls,
    DATABASE_URL: `postgres${away}/app`,
  });
  const noBroker = await runCli(["doctor", "--json"], { ...urls, RABBITMQ_URL: `amqp${away}` });

  expect([noDatabase.code, noBroker.code]).toEqual([4, 4]);
  expect(findingsOf(noDatabase)).toContainEqual(
    expect.objectContaining({ check: "database", status: "problem" }),
  );
  expect(findingsOf(noDatabase)).toContainEqual(
    expect.objectContaining({ check: "broker", status: "ok" }),
  );
  expect(findingsOf(noBroker)).toContainEqual(
    expect.objectContaining({ check: "broker", status: "problem" }),
  );
  expect(findingsOf(noBroker)).toContainEqual(
    expect.objectContaining({ check: "schema", status: "problem", remedy: "waybill migrate" }),
  );
  expect(noDatabase.stdout + noBroker.stdout).not.toContain("canary");
});

test("a paused queue with waiting messages and without workers is no problem", async () => {
  await using database = await createMigratedDatabase();
  await using vhost = await createTestVhost();
  const env = {
    DATABASE_URL: database.url,
    RABBITMQ_URL: vhost.url,
    WAYBILL_PREFIX: vhost.prefix,
  };
  await database.rows(
    `insert into waybill.queue (name, paused_at, paused_by)
     values ('emails', now() - interval '2 hours', 'ada'), ('letters', now(), 'bob')`,
  );
  await database.rows(
    "insert into waybill.queue_gate (queue, kind, name, closed_until) values ('parcels', 'key', 'acme', now() + interval '90 seconds')",
  );
  await addWorker(database, "other", { queues: ["boxes"] });
  await database.rows(
    `select * from waybill.enqueue('[{"type":"t","queue":"emails"},{"type":"t","queue":"letters"},{"type":"t","queue":"boxes"}]')`,
  );
  await runCli(["topology", "apply", "--queue", "emails", "letters", "boxes"], env);
  await using relay = await startCli(["relay"], env);
  await eventually(
    async () =>
      (
        await database.rows(
          "select from waybill.outbox as o, waybill.relay as r where pg_visible_in_snapshot(o.tx, r.snapshot)",
        )
      ).length === 3,
  );

  const findings = findingsOf(await runCli(["doctor", "--json"], env));

  const lines = findings.map(({ status, check, message }) => `${status} ${check}: ${message}`);
  expect(lines.filter((line) => /emails|queue letters/.test(line))).toEqual([
    "notice pauses: queue emails has been paused by ada for 2 h",
    expect.stringMatching(/^ok pauses: queue letters has been paused by bob for \d/),
  ]);
  expect(lines).toContainEqual(
    expect.stringMatching(/^ok pauses: queue parcels, key acme is closed for \d+ s more$/),
  );
  expect(lines).toContainEqual(expect.stringMatching(/^problem queues: .*boxes: 1 message/));
  expect(relay.hasExited).toBe(false);
});
