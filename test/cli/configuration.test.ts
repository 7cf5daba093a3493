import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { runCli } from "./support.ts";

const goodUrls = {
  DATABASE_URL: "postgres://waybill:secret@127.0.0.1:1/app",
  RABBITMQ_URL: "amqp://waybill:secret@127.0.0.1:1",
};

test("every problem of the configuration is reported at once, with its name and a remedy", async () => {
  const result = await runCli(["relay", "--grace", "soon"], {
    DATABASE_URL: "mysql://user:hunter2@host/app",
    WAYBILL_SCHEMA: "No-Schema",
    WAYBILL_SCEMA: "waybill",
    WAYBILL_TOPOLOGY: "maybe",
  });

  expect(result.code).toBe(2);
  expect(result.stderr).toMatch(/DATABASE_URL: expected a URL like postgres:/);
  expect(result.stderr).toMatch(/RABBITMQ_URL: is not set; set it, or RABBITMQ_URL_FILE/);
  expect(result.stderr).toMatch(/WAYBILL_SCHEMA: expected lower case letters/);
  expect(result.stderr).toMatch(/WAYBILL_SCEMA: .*did you mean WAYBILL_SCHEMA\?/);
  expect(result.stderr).toMatch(/WAYBILL_TOPOLOGY: expected assert, check, off/);
  expect(result.stderr).toMatch(/--grace: expected a time with its unit/);
  expect(result.stderr).not.toContain("hunter2");
  expect(result.stdout).toBe("");
});

test("a secret file that is missing or empty, or given beside its variable, is a problem", async () => {
  const folder = await mkdtemp(join(tmpdir(), "waybill-cli-"));
  const empty = join(folder, "empty");
  await writeFile(empty, "\n");

  const result = await runCli(["doctor"], {
    DATABASE_URL_FILE: join(folder, "none"),
    RABBITMQ_URL_FILE: empty,
    RABBITMQ_MANAGEMENT_URL: "http://127.0.0.1:1",
    RABBITMQ_MANAGEMENT_URL_FILE: empty,
  });

  expect(result.code).toBe(2);
  expect(result.stderr).toMatch(/DATABASE_URL_FILE: names the file .*cannot be read \(ENOENT\)/);
  expect(result.stderr).toMatch(/RABBITMQ_URL_FILE: names the file .*which is empty/);
  expect(result.stderr).toMatch(
    /RABBITMQ_MANAGEMENT_URL: is set, and so is RABBITMQ_MANAGEMENT_URL_FILE/,
  );
  await rm(folder, { recursive: true });
});

test("a secret file's value is used", async () => {
  const folder = await mkdtemp(join(tmpdir(), "waybill-cli-"));
  const file = join(folder, "database-url");
  await writeFile(file, `${goodUrls.DATABASE_URL}\n`);

  const result = await runCli(["migrate"], { DATABASE_URL_FILE: file });

  expect(result.code).toBe(1);
  expect(result.stderr).toContain("127.0.0.1:1/app");
  expect(result.stderr).not.toContain("secret");
  await rm(folder, { recursive: true });
});

test("S7, S8: keys that cannot be used are reported by their file, and nothing of them is shown", async () => {
  const folder = await mkdtemp(join(tmpdir(), "waybill-cli-"));
  const file = join(folder, "signing-keys");
  const short = randomBytes(16).toString("base64");
  await writeFile(file, `2026-11:${short}\n`);

  const result = await runCli(["relay"], {
    ...goodUrls,
    WAYBILL_SIGNING_KEYS_FILE: file,
    WAYBILL_ENCRYPTION_KEYS: "hunter2",
  });

  expect(result.code).toBe(2);
  expect(result.stderr).toMatch(
    /WAYBILL_SIGNING_KEYS_FILE: key 1: "2026-11" has 16 bytes in base64, not 32; write each key as/,
  );
  expect(result.stderr).toMatch(/WAYBILL_ENCRYPTION_KEYS: key 1: has no id of 1 to 40 letters/);
  expect(result.stderr).not.toContain(short.slice(0, 10));
  expect(result.stderr).not.toContain("hunter2");
  await rm(folder, { recursive: true });
});

test("a flag wins over the environment, and an alias counts where the name is not set", async () => {
  const flag = await runCli(
    ["migrate", "--database-url", "postgres://127.0.0.1:2/other"],
    goodUrls,
  );
  const alias = await runCli(["topology", "check", "--queue", "emails"], {
    CLOUDAMQP_URL: "amqp://waybill:secret@127.0.0.1:3",
  });

  expect(flag.stderr).toContain("127.0.0.1:2/other");
  expect(alias.code).toBe(1);
  expect(alias.stderr).toContain("127.0.0.1:3");
});

test("S24: a flag with a password is refused without it being shown, and one without is taken", async () => {
  const database = await runCli([
    "migrate",
    "--database-url",
    "postgres://a:hunter2@127.0.0.1:2/x",
  ]);
  const asked = await runCli([
    "migrate",
    "--database-url",
    "postgres://127.0.0.1:2/x?password=hunter2",
  ]);
  const broker = await runCli(
    ["topology", "check", "--queue", "emails", "--rabbitmq-url", "amqp://a:hunter2@127.0.0.1:3"],
    goodUrls,
  );

  for (const { code, stderr, stdout } of [database, asked, broker]) {
    expect(code).toBe(2);
    expect(stderr).toMatch(/--(?:database|rabbitmq)-url: has a password/);
    expect(stderr).toMatch(/(?:DATABASE|RABBITMQ)_URL_FILE/);
    expect(stdout + stderr).not.toContain("hunter2");
  }
});

test("a command or option that is mistyped ends with 2 and a suggestion", async () => {
  const command = await runCli(["jbos"]);
  const option = await runCli(["migrate", "--dry-rum"], goodUrls);
  const nothing = await runCli([]);

  expect(command.code).toBe(2);
  expect(command.stderr).toMatch(/Did you mean jobs\?/);
  expect(option.code).toBe(2);
  expect(option.stderr).toMatch(/Did you mean --dry-run\?/);
  expect(nothing.code).toBe(2);
});

test("help and version end with 0", async () => {
  const help = await runCli(["jobs", "list", "--help"]);
  const version = await runCli(["--version"]);

  expect(help.code).toBe(0);
  expect(help.stdout).toContain("--json");
  expect(version.code).toBe(0);
  expect(version.stdout).toMatch(/^\d+\.\d+\.\d+/);
});

test("colours come where they are asked for, and never where they are refused", async () => {
  const args = ["topology", "check", "--queue", "emails"];
  const env = { RABBITMQ_URL: inject("rabbitmqUrl"), WAYBILL_PREFIX: "no-such-prefix" };

  const plain = await runCli(args, env);
  const forced = await runCli(args, { ...env, FORCE_COLOR: "1" });
  const refused = await runCli([...args, "--no-color"], { ...env, FORCE_COLOR: "1" });
  const silenced = await runCli(args, { ...env, NO_COLOR: "1" });

  expect(plain.stdout).not.toContain("\u001b");
  expect(forced.stdout).toContain("\u001b[31mmissing");
  expect(refused.stdout).toBe(plain.stdout);
  expect(silenced.stdout).toBe(plain.stdout);
});
