import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import {
  type ForeignLine,
  type ForeignLineOptions,
  startForeignLine,
  welcome,
} from "./foreign-line.ts";

const body = '{"to":"typed@example.com"}';

/** What the form "Publish message" of the management UI sends, and rabbitmqadmin with it. */
async function publishByHand(
  foreign: ForeignLine,
  properties: Readonly<Record<string, unknown>>,
  payload = body,
  encoding: "string" | "base64" = "string",
): Promise<void> {
  const { management, name, prefix } = foreign.line.vhost;
  const answer = await management.request("POST", `/api/exchanges/${name}/${prefix}.jobs/publish`, {
    properties,
    routing_key: "emails",
    payload,
    payload_encoding: encoding,
  });
  expect(answer).toEqual({ routed: true });
}

const severalJobs: ForeignLineOptions = { jobs: { emails: ["emails.welcome", "emails.receipt"] } };

test("a message typed with empty properties runs where the queue has one job", async () => {
  await using foreign = await startForeignLine();

  await publishByHand(foreign, {});
  await foreign.settled(1);

  expect(await foreign.handled()).toEqual([body]);
});

test("a message typed with empty properties is dead-lettered with a reason where the queue has several", async () => {
  await using foreign = await startForeignLine(severalJobs);

  await publishByHand(foreign, {});
  const outcomes = await foreign.settled(1);
  const [letter] = await foreign.deadLetters("emails", 1);

  expect(outcomes).toEqual([
    {
      queue: "emails",
      type: "(none)",
      outcome: "no_handler",
      reason: expect.stringMatching(/^no type: .* the queue has no untypedJob$/) as string,
    },
  ]);
  expect(letter?.content.toString()).toBe(body);
  expect(letter?.headers["waybill-error"]).toBe(outcomes[0]?.reason);
});

test.each<[string, Record<string, unknown>]>([
  ["the property type only", { type: "emails.receipt" }],
  ["a header type only", { headers: { type: "emails.receipt" } }],
  [
    "both, of which the property counts",
    { type: "emails.receipt", headers: { type: "emails.welcome" } },
  ],
  ["delivery mode 1", { type: "emails.receipt", delivery_mode: 1 }],
  ["numbers as text", { type: "emails.receipt", headers: { "waybill-dispatch": "1", n: "5" } }],
])("a message typed with %s runs", async (_, properties) => {
  await using foreign = await startForeignLine(severalJobs);

  await publishByHand(foreign, properties);
  await foreign.settled(1);

  expect(await foreign.handled("emails.receipt")).toEqual([body]);
});

test("a message typed with headers only is dead-lettered where they name no job", async () => {
  await using foreign = await startForeignLine(severalJobs);

  await publishByHand(foreign, { headers: { tenant: "acme", n: 5, list: [1, { a: true }] } });
  const [outcome] = await foreign.settled(1);
  const [letter] = await foreign.deadLetters("emails", 1);

  expect(outcome).toMatchObject({ outcome: "no_handler" });
  expect(letter?.headers).toMatchObject({ tenant: "acme", n: "5" });
});

test("a slip in the payload is dead-lettered with what is wrong", async () => {
  await using foreign = await startForeignLine();

  await publishByHand(foreign, { type: welcome.name }, "{to: 'a'}");
  await publishByHand(foreign, { type: welcome.name }, '{"too":"a"}');
  await publishByHand(foreign, { type: welcome.name }, "/w==", "base64");
  const outcomes = await foreign.settled(3);

  expect(outcomes.map(({ outcome, reason }) => [outcome, reason])).toEqual([
    ["undecodable", "the body is not JSON, no content type is given"],
    ["undecodable", "the body is not UTF-8, no content type is given"],
    ["validation", expect.stringContaining("to: Invalid input") as string],
  ]);
  await foreign.isAlive();
});

test("a dead letter without a type that is moved back runs as the job that the queue declares by then", async () => {
  await using foreign = await startForeignLine(severalJobs);
  await publishByHand(foreign, { headers: { tenant: "acme" } });
  await foreign.settled(1);
  const [letter] = await foreign.deadLetters("emails", 1);
  if (letter === undefined) throw new Error("The message has no dead letter.");

  await foreign.restart({ emails: { concurrency: 5, untypedJob: "emails.receipt" } });
  // What a shovel does: the message as it lies there, to its queue by name.
  const { content, type, messageId, headers } = letter;
  const routingKey = `${foreign.line.vhost.prefix}.emails`;
  await foreign.send({
    exchange: "",
    routingKey,
    body: content,
    properties: { type, messageId, headers },
  });
  await eventually(async () => (await foreign.handled("emails.receipt")).length === 1);

  expect(await foreign.handled()).toEqual([body]);
  expect(await foreign.line.database.rows("select state from waybill.inbox")).toEqual([
    { state: "succeeded" },
  ]);
});
