import { deflateSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { startForeignLine, welcome } from "./foreign-line.ts";
import { hostileBodies } from "./hostile-bodies.ts";

const jobs = { emails: [welcome.name] };

test("F3: each of 200 hostile bodies runs as JSON or is dead-lettered with its bytes, and the worker lives on", async () => {
  await using foreign = await startForeignLine({ jobs });
  expect(hostileBodies).toHaveLength(200);

  await foreign.send(...hostileBodies.map((body) => ({ body })));
  const outcomes = await foreign.settled(200);

  const dead = outcomes.filter(({ outcome }) => outcome !== "ran");
  for (const { outcome, reason } of dead) {
    expect(["undecodable", "validation"]).toContain(outcome);
    expect(reason).toMatch(/\S/);
  }
  const letters = await foreign.deadLetters("emails", dead.length);
  const kept = new Set(letters.map(({ content }) => content.toString("hex")));
  const lost = hostileBodies.filter((body) => !kept.has(body.toString("hex")) && !isJson(body));
  expect(lost.map((body) => body.toString("latin1").slice(0, 80))).toEqual([]);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  await foreign.isAlive();
});

function isJson(body: Buffer): boolean {
  try {
    JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
    return true;
  } catch {
    return false;
  }
}

test("bodies of other formats between good ones do not delay or damage their neighbours", async () => {
  await using foreign = await startForeignLine();
  const good = (n: number) => ({
    body: `{"to":"good-${n}@example.com"}`,
    properties: { type: welcome.name },
  });
  const text = '{"to":"a@b.c"}';
  const bad: readonly (readonly [
    string,
    { body: string | Buffer; properties?: Record<string, unknown> },
  ])[] = [
    [
      "pickle",
      {
        body: Buffer.from("80044b2a2e", "hex"),
        properties: { contentType: "application/x-python-serialize" },
      },
    ],
    [
      "PHP serialize",
      {
        body: 'O:12:\\"WelcomeEmail\\":1:{s:2:\\"to\\";s:5:\\"a@b.c\\";}',
        properties: { contentType: "text/plain" },
      },
    ],
    ["zlib", { body: deflateSync(text), properties: { contentType: "application/json" } }],
    ["gzip", { body: gzipSync(text), properties: { contentEncoding: "gzip" } }],
    ["UTF-16", { body: Buffer.from(text, "utf16le") }],
    ["truncated UTF-8", { body: Buffer.from('{"to":"zoë').subarray(0, -1) }],
    ["nothing", { body: "" }],
    ["null", { body: "null" }],
    ["a list", { body: "[]" }],
    ["1 MiB of no JSON", { body: "x".repeat(1_048_576) }],
    ["8 MiB and more", { body: JSON.stringify({ to: "x".repeat(8_388_608) }) }],
  ];

  await foreign.send(good(0), ...bad.flatMap(([, message], n) => [message, good(n + 1)]));
  const outcomes = await foreign.settled(2 * bad.length + 1);

  expect(await foreign.handled()).toHaveLength(bad.length + 1);
  const reasons = outcomes.flatMap(({ reason }) => reason ?? []);
  expect(
    reasons.map((reason) => reason.replace(/, the content type.*|, no content type.*/, "")).sort(),
  ).toEqual([
    'Cannot accept the payload of job "emails.welcome": payload: Invalid input: expected object, received array.',
    'Cannot accept the payload of job "emails.welcome": payload: Invalid input: expected object, received null.',
    'content encoding "gzip" is not read',
    'content type "application/x-python-serialize" is not read, only JSON is',
    "the body holds NUL bytes",
    "the body is 8388617 bytes, the limit is 8388608",
    "the body is empty",
    "the body is not JSON",
    "the body is not JSON",
    "the body is not UTF-8",
    "the body is not UTF-8",
  ]);
  const letters = await foreign.deadLetters("emails", bad.length);
  const hex = (list: readonly (string | Buffer)[]): string[] =>
    list.map((each) => Buffer.from(each).toString("hex").slice(0, 200)).sort();
  expect(hex(letters.map(({ content }) => content))).toEqual(hex(bad.map(([, { body }]) => body)));
});

test("a body of 1 MiB that is JSON runs with every byte", async () => {
  await using foreign = await startForeignLine();
  const to = `${"🦆ë".repeat(170_000)}@example.com`;

  await foreign.send({ body: JSON.stringify({ to }) });
  await foreign.settled(1);

  expect(await foreign.handled()).toEqual([JSON.stringify({ to })]);
});

test("a character split over the frames of a delivery arrives whole", async () => {
  await using foreign = await startForeignLine();
  // Frames of a delivery end at 131,072 bytes less their own 8: a duck around that at each offset.
  const bodies = [0, 1, 2, 3, 4].map((offset) =>
    JSON.stringify({ to: `${"x".repeat(131_050 - offset)}${"🦆".repeat(20)}` }),
  );

  await foreign.send(...bodies.map((body) => ({ body })));
  await foreign.settled(bodies.length);

  expect([...(await foreign.handled())].sort()).toEqual([...bodies].sort());
});

test("PHP's JSON runs with its escapes undone; its [] for an empty object is the schema's to judge", async () => {
  await using foreign = await startForeignLine();

  await foreign.send(
    { body: '{"to":"zo\\u00eb@example.com","path":"a\\/b","duck":"\\ud83e\\udd86","none":[]}' },
    { body: "[]" },
    { body: "{}" },
  );
  const outcomes = await foreign.settled(3);

  expect((await foreign.handled()).map((text) => JSON.parse(text) as unknown)).toEqual([
    { to: "zoë@example.com", path: "a/b", duck: "🦆", none: [] },
  ]);
  expect(outcomes.flatMap(({ reason }) => reason ?? [])).toEqual([
    expect.stringContaining("expected object, received array"),
    expect.stringContaining("to: Invalid input: expected string, received undefined"),
  ]);
});
