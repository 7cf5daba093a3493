/** TLS on both links: real servers behind certificates of an authority of the test's own. */

import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { moduleOf, startPlace } from "../cli/place.ts";
import { runCli, startCli } from "../cli/support.ts";
import { eventually } from "../support/index.ts";
import { type Authority, type Certificate, startAuthority } from "./support/certificates.ts";
import { startTlsFront } from "./support/tls-front.ts";

const secret = "canary-pa55word";
let authority: Authority;
let good: Certificate;

beforeAll(async () => {
  authority = await startAuthority();
  good = await authority.issue("IP:127.0.0.1");
});

afterAll(async () => await authority[Symbol.asyncDispose]());

/** The URL with a password that may not travel. */
function withSecret(url: string): string {
  return Object.assign(new URL(url), { username: "waybill", password: secret }).href;
}

const links = [
  { link: "PostgreSQL", variable: "DATABASE_URL", target: "databaseUrl", args: ["jobs", "list"] },
  {
    link: "RabbitMQ",
    variable: "RABBITMQ_URL",
    target: "rabbitmqUrl",
    args: ["topology", "check", "--queue", "mail"],
  },
] as const;

test("S18: relay and worker run a job over TLS on both links, by an authority of one's own", async () => {
  await using place = await startPlace();
  await using database = await startTlsFront(place.database.url, good);
  await using broker = await startTlsFront(place.vhost.url, good);
  const env = {
    ...place.env,
    DATABASE_URL: database.url,
    RABBITMQ_URL: broker.url,
    NODE_EXTRA_CA_CERTS: authority.file,
  };
  await using relay = await startCli(["relay"], env);
  await using worker = await startCli(["worker", moduleOf("emails.ts")], env);

  await place.enqueue("ada@example.com");

  await eventually(async () => (await place.sent()).length === 1, { deadlineMs: 25_000 });
  expect(relay.hasExited || worker.hasExited).toBe(false);
  expect(broker.plain()).toBe("");
});

test("S18: PostgreSQL's authority may be named in the URL", async () => {
  await using place = await startPlace();
  await using front = await startTlsFront(place.database.url, good);
  const url = new URL(front.url);
  url.searchParams.set("sslrootcert", authority.file);

  const listed = await runCli(["jobs", "list"], { DATABASE_URL: url.href });
  url.searchParams.set("sslrootcert", `${authority.file}.missing`);
  const missing = await runCli(["jobs", "list"], { DATABASE_URL: url.href });

  expect(listed.code, listed.stderr).toBe(0);
  expect(missing.code).toBe(1);
  expect(missing.stderr).toMatch(/ca\.pem\.missing .*cannot be read.*sslrootcert/);
});

test.each(links)(
  "S18: $link with a certificate of another host, that is over, or of an unknown authority is refused, and told no password",
  async ({ variable, target, args }) => {
    await using strangers = await startAuthority();
    const wrong = {
      "of another host": await authority.issue("DNS:other.example"),
      "that is over": await authority.issue("IP:127.0.0.1", -1),
      "of an unknown authority": await strangers.issue("IP:127.0.0.1"),
    };
    for (const [what, certificate] of Object.entries(wrong)) {
      await using front = await startTlsFront(inject(target), certificate);

      const result = await runCli(args, {
        [variable]: withSecret(front.url),
        NODE_EXTRA_CA_CERTS: authority.file,
      });

      expect(result.code, `${what}: ${result.stderr}`).toBe(1);
      expect(result.stderr, what).toMatch(/certificate/);
      expect(result.stderr, what).toContain("NODE_EXTRA_CA_CERTS");
      expect(result.stderr + result.stdout + front.plain(), what).not.toContain(secret);
    }
  },
);

test.each(links)(
  "S18: $link that says it speaks no TLS is refused where the URL asks for it, and told no password",
  async ({ variable, target, args }) => {
    await using front = await startTlsFront(inject(target));

    const result = await runCli(args, { [variable]: withSecret(front.url) });

    expect(result.code, result.stderr).toBe(1);
    expect(result.stderr).toMatch(/does not speak TLS/);
    expect(result.stderr + result.stdout + front.plain()).not.toContain(secret);
  },
);
