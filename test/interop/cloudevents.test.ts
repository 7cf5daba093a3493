import { CloudEvent, HTTP } from "cloudevents";
import { type DecodeContext, decodeEnvelope, type Envelope, newJobId } from "@waybill/core";
import { expect, test } from "vitest";
import { startForeignLine } from "../foreign/foreign-line.ts";

const events = [
  { to: "ce@example.com", n: 12.5, list: [1, null, { a: "ë🦆" }] },
  { 'quoted "key"': "a\\b\n\u2028", empty: {}, none: [] },
  ["a", "list"],
  42,
  true,
].map(
  (data, n) =>
    new CloudEvent({
      id: `ce-${n}`,
      source: "/shop",
      type: "com.example.emails.welcome",
      time: "2026-11-30T05:00:00.000Z",
      subject: "order 42",
      tenant: "acme",
      data,
    }),
);

const context: DecodeContext = {
  decoder: "cloudevents",
  maxBytes: 262_144,
  newId: newJobId,
  now: () => new Date("2026-11-30T08:00:00.000Z"),
};

function decode(body: string, contentType: string, headers: Record<string, unknown>): Envelope {
  return decodeEnvelope(
    {
      queue: "emails",
      content: Buffer.from(body),
      messageId: undefined,
      type: undefined,
      correlationId: undefined,
      contentType,
      contentEncoding: undefined,
      timestamp: undefined,
      priority: undefined,
      redelivered: false,
      headers,
    },
    context,
  );
}

/** What a handler gets, as the SDK would have it: attributes and data make an event again. */
function eventOf(envelope: Envelope): CloudEvent<unknown> {
  const attributes = Object.entries(envelope.headers).map(([name, value]) => [
    name.replace(/^cloudEvents:/, ""),
    value,
  ]);
  return new CloudEvent<unknown>({
    ...(Object.fromEntries(attributes) as { type: string; source: string }),
    data: JSON.parse(envelope.payload) as unknown,
  });
}

test.each(events)("an event of the SDK survives both modes: $id", (event) => {
  const structured = HTTP.structured(event);
  const binary = HTTP.binary(event);
  const headers = Object.fromEntries(
    Object.entries(binary.headers)
      .filter(([name]) => name.startsWith("ce-"))
      .map(([name, value]) => [name.replace("ce-", "cloudEvents:"), value]),
  );

  const one = decode(String(structured.body), String(structured.headers["content-type"]), {});
  const other = decode(String(binary.body), "application/json", headers);

  expect(one).toMatchObject({ type: event.type, enqueuedAt: new Date(String(event.time)) });
  expect(other.id).toBe(one.id);
  expect(JSON.parse(other.payload)).toEqual(event.data);
  expect(eventOf(one).toJSON()).toEqual(
    expect.objectContaining({ ...event.toJSON(), data: event.data }),
  );
});

test("an event of the SDK runs as a job, once for both modes", async () => {
  await using foreign = await startForeignLine({
    jobs: { emails: ["com.example.emails.welcome", "emails.welcome"] },
  });
  const [event] = events;
  if (event === undefined) throw new Error("There are no events.");
  const structured = HTTP.structured(event);
  const binary = HTTP.binary(event);
  const headers = Object.fromEntries(
    Object.entries(binary.headers).map(([name, value]) => [
      name.replace("ce-", "cloudEvents:"),
      String(value),
    ]),
  );

  await foreign.send(
    {
      body: String(structured.body),
      properties: { contentType: String(structured.headers["content-type"]) },
    },
    { body: String(binary.body), properties: { contentType: "application/json", headers } },
  );
  await foreign.settled(1);
  await foreign.isAlive();

  expect(
    (await foreign.handled("com.example.emails.welcome")).map(
      (text) => JSON.parse(text) as unknown,
    ),
  ).toEqual([event.data]);
});
