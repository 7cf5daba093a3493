import { isUtf8 } from "node:buffer";
import { expect, test } from "vitest";
import { bodyOf, type Capture, captures, propertiesOf } from "./captures.ts";
import { type ForeignLine, type Outcome, startForeignLine } from "./foreign-line.ts";

/**
 * Replays all captures into one queue. Moleculer's and one that was sent to nowhere go to queues of
 * their own on the wire; here they get the queue's name, since a message can only be lost once it
 * has arrived.
 */
async function replay(foreign: ForeignLine, queue: string): Promise<void> {
  const { vhost } = foreign.line;
  const user = decodeURIComponent(new URL(vhost.url).username || "guest");
  await foreign.send(
    ...captures.map((capture: Capture) => {
      const direct = capture.exchange === "" || capture.routingKey !== "emails";
      return {
        exchange: direct ? "" : `${vhost.prefix}.jobs`,
        routingKey: direct ? `${vhost.prefix}.${queue}` : queue,
        body: bodyOf(capture),
        properties: propertiesOf(capture, user),
      };
    }),
  );
}

/** How often each type ended how, without the details of a reason. */
function tally(outcomes: readonly Outcome[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { type, outcome, reason } of outcomes) {
    const short = (reason ?? "").replace(/[:,] .*/s, "");
    const line = [type, outcome, short].filter((part) => part !== "").join(" | ");
    counts[line] = (counts[line] ?? 0) + 1;
  }
  return counts;
}

test("the file holds 51 captured messages", () => {
  expect(captures).toHaveLength(51);
});

test("each of 51 captured messages runs or is kept with a reason, and the consumer lives on", async () => {
  await using foreign = await startForeignLine();

  await replay(foreign, "emails");
  // One CloudEvent was captured in both modes: one event, which is one job.
  const outcomes = await foreign.settled(50);

  expect(tally(outcomes)).toEqual({
    "emails.welcome | ran": 28,
    'emails.welcome | undecodable | content type "application/x-python-serialize" is not read': 2,
    'emails.welcome | undecodable | the body is compressed ("application/x-gzip")': 1,
    "emails.welcome | undecodable | the body is not JSON": 5,
    'emails.welcome | validation | Cannot accept the payload of job "emails.welcome"': 12,
    'WelcomeEmail | parked | no worker has a handler for "WelcomeEmail"': 1,
    'com.example.emails.welcome | parked | no worker has a handler for "com.example.emails.welcome"': 1,
  });
  await foreign.isAlive();
});

test("bytes and reason of each dead letter lie in the dead-letter queue and in the database", async () => {
  await using foreign = await startForeignLine();

  await replay(foreign, "emails");
  const outcomes = await foreign.settled(50);
  const dead = outcomes.filter(({ outcome }) => outcome !== "ran" && outcome !== "parked");
  const letters = await foreign.deadLetters("emails", dead.length);
  const stored = await foreign.line.database.rows<{ payload: string; payload_base64: boolean }>(
    "select payload, payload_base64 from waybill.dead_letter",
  );

  const hex = (list: readonly Buffer[]): string[] =>
    list.map((each) => each.toString("hex")).sort();
  const inTable = stored.map((row) =>
    Buffer.from(row.payload, row.payload_base64 ? "base64" : "utf8"),
  );
  expect(hex(letters.map((letter) => letter.content))).toEqual(hex(inTable));
  const sent = new Set(captures.map((capture) => bodyOf(capture).toString("hex")));
  for (const { content, headers } of letters) {
    expect(sent).toContain(content.toString("hex"));
    expect(headers["waybill-error"]).toMatch(/\S/);
  }
  // The ones that no text column could hold are among them.
  expect(letters.filter(({ content }) => !isUtf8(content)).length).toBeGreaterThanOrEqual(3);
});

test.each([
  ["nestjs", { "emails.welcome | ran": 3 }],
  ["celery", { "emails.welcome | ran": 3, "emails.welcome | cancelled": 1 }],
  ["cloudevents", { "com.example.emails.welcome | ran": 1 }],
] as const)(
  "in a queue declared as %s its messages run, and the others are dead letters with a reason",
  async (decoder, expected) => {
    await using foreign = await startForeignLine({
      queues: { emails: { concurrency: 5, decoder, untypedJob: "emails.welcome" } },
      jobs: { emails: ["emails.welcome", "com.example.emails.welcome"] },
      relay: false,
    });

    await replay(foreign, "emails");
    const outcomes = await foreign.settled(decoder === "cloudevents" ? 50 : 51);

    const { readable = [], kept = [] } = Object.groupBy(outcomes, ({ outcome }) =>
      outcome === "undecodable" ? "kept" : "readable",
    );
    expect(tally(readable)).toEqual(expected);
    for (const { reason } of kept) expect(reason).toMatch(/\S/);
    await foreign.isAlive();
  },
);

test("nobody answers a message that asks for a reply", async () => {
  await using foreign = await startForeignLine({
    queues: { emails: { concurrency: 5, decoder: "nestjs" } },
  });

  await foreign.send({
    body: '{"pattern":"emails.welcome","data":{"to":"a@b.c"},"id":"5c382b12d4bab6767cd63"}',
    properties: { replyTo: "amq.rabbitmq.reply-to", correlationId: "5c382b12d4bab6767cd63" },
  });
  await foreign.settled(1);
  await foreign.isAlive();

  expect(foreign.replies).toEqual([]);
  expect(await foreign.handled()).toHaveLength(2);
});
