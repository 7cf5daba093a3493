import { expect, test } from "vitest";
import { type DecoderName, decodeEnvelope, isUnreadable } from "../decode.ts";
import type { Envelope, IncomingMessage, UnreadableEnvelope } from "../envelope.ts";
import { derivedId } from "../id.ts";

const uuid = "55982438-7c55-4ce3-923f-2fa0a1d61cdb";

function decode(
  decoder: DecoderName,
  body: string,
  parts: Partial<IncomingMessage> = {},
): Envelope | UnreadableEnvelope {
  const message: IncomingMessage = {
    queue: "emails",
    content: Buffer.from(body),
    messageId: undefined,
    type: undefined,
    correlationId: undefined,
    contentType: "application/json",
    contentEncoding: "utf-8",
    timestamp: undefined,
    priority: undefined,
    redelivered: false,
    headers: {},
    ...parts,
  };
  return decodeEnvelope(message, {
    decoder,
    maxBytes: 262_144,
    newId: () => "0190b5a0-0000-7000-8000-000000000001",
    now: () => new Date("2026-11-30T08:00:00Z"),
  });
}

const reasonOf = (envelope: Envelope): string | undefined =>
  isUnreadable(envelope) ? `${envelope.failureClass}: ${envelope.reason}` : undefined;

// NestJS.

test("a NestJS pattern is the type and data the payload, in its own text", () => {
  const envelope = decode(
    "nestjs",
    '{"pattern":"emails.welcome","data": {"n":12345678901234567890}}',
  );

  expect(reasonOf(envelope)).toBeUndefined();
  expect(envelope).toMatchObject({ type: "emails.welcome", payload: '{"n":12345678901234567890}' });
});

test("a NestJS request has the id of its call, so that a redelivery is recognised", () => {
  const envelope = decode("nestjs", '{"pattern":"t","data":1,"id":"5c382b12d4bab6767cd63"}');

  expect(envelope.id).toBe(derivedId("emails", "t", "5c382b12d4bab6767cd63"));
});

test("a NestJS pattern that is an object names no job", () => {
  const body = '{"pattern":{"cmd":"welcome","v":1},"data":{}}';

  expect(reasonOf(decode("nestjs", body))).toMatch(
    /^no_handler: no type: .* text as the body's pattern/,
  );
  expect(decode("nestjs", body, { type: "emails.welcome" })).toMatchObject({
    type: "emails.welcome",
    payload: "{}",
  });
});

test("NestJS data that was undefined is null, and a body without a pattern is undecodable", () => {
  expect(decode("nestjs", '{"pattern":"t"}').payload).toBe("null");
  for (const body of ["{}", "[]", "1", "null", '"pattern"']) {
    expect(reasonOf(decode("nestjs", body))).toMatch(/^undecodable: the body is no NestJS message/);
  }
});

// Celery.

const embed = '{"callbacks": null, "errbacks": null, "chain": null, "chord": null}';
const celeryHeaders = {
  lang: "py",
  task: "emails.welcome",
  id: uuid,
  retries: 2,
  argsrepr: "('x',)",
  eta: null,
  expires: null,
};

test("a Celery task has its name and id in headers, and args and kwargs as the payload", () => {
  const envelope = decode("celery", `[["ada", 1.0], {"n": 12345678901234567890}, ${embed}]`, {
    headers: celeryHeaders,
  });

  expect(reasonOf(envelope)).toBeUndefined();
  expect(envelope).toMatchObject({
    id: uuid,
    idSource: "given",
    type: "emails.welcome",
    payload: '{"args":["ada", 1.0],"kwargs":{"n": 12345678901234567890}}',
    dispatch: 1,
    expiresAt: null,
    runAt: null,
  });
  expect(envelope.headers).toMatchObject({ lang: "py", retries: "2" });
});

test("a Celery task of protocol 1 has all of it in its body", () => {
  const body = `{"task": "emails.welcome", "id": "${uuid}", "args": ["ada"], "kwargs": {"t": 1}, "retries": 0, "eta": null, "expires": null, "callbacks": null, "errbacks": null, "chord": null}`;

  expect(decode("celery", body)).toMatchObject({
    id: uuid,
    type: "emails.welcome",
    payload: '{"args":["ada"],"kwargs":{"t": 1}}',
  });
});

test("Celery's eta is the earliest start and expires the latest; an eta in the past is none", () => {
  const times = { eta: "2026-11-30T09:00:00.000000+00:00", expires: "2026-11-30T10:00:00" };
  const later = decode("celery", `[[], {}, ${embed}]`, { headers: { ...celeryHeaders, ...times } });
  const past = decode("celery", `[[], {}, ${embed}]`, {
    headers: { ...celeryHeaders, eta: "2026-11-30T07:00:00" },
  });

  expect(later.runAt).toEqual(new Date("2026-11-30T09:00:00Z"));
  expect(later.expiresAt).toEqual(new Date("2026-11-30T10:00:00Z"));
  expect(past.runAt).toBeNull();
});

test.each(["callbacks", "errbacks", "chain", "chord"])(
  "a Celery task with %s is undecodable: the follow-up would be dropped silently",
  (name) => {
    const options = embed.replace(`"${name}": null`, `"${name}": [{"task": "next"}]`);

    const envelope = decode("celery", `[[], {}, ${options}]`, { headers: celeryHeaders });

    expect(reasonOf(envelope)).toMatch(
      new RegExp(`^undecodable: the Celery task has a follow-up \\(${name}\\)`),
    );
    expect(envelope.id).toBe(uuid);
  },
);

test.each(["[]", "[[],{}]", "[{},[],{}]", "[1,2,3]", "{}", "1", "null", '{"task":5}'])(
  "%s is no Celery task",
  (body) => {
    expect(reasonOf(decode("celery", body, { headers: celeryHeaders }))).toMatch(
      /^undecodable: the body is no Celery task/,
    );
  },
);

test("a pickled Celery task keeps its name and id, so that its dead letter can be told", () => {
  const envelope = decode("celery", "\u0080", {
    headers: celeryHeaders,
    contentType: "application/x-python-serialize",
    contentEncoding: "binary",
  });

  expect(reasonOf(envelope)).toMatch(/^undecodable: content type/);
  expect(envelope).toMatchObject({ id: uuid, type: "emails.welcome" });
});

// CloudEvents.

const structured =
  '{"id":"ce-1","time":"2026-11-30T05:00:00.000Z","type":"com.example.emails.welcome","source":"/shop","specversion":"1.0","data":{"n":1e400},"tenant":"acme"}';
const binary = {
  "cloudEvents:id": "ce-1",
  "cloudEvents:time": "2026-11-30T05:00:00.000Z",
  "cloudEvents:type": "com.example.emails.welcome",
  "cloudEvents:source": "/shop",
  "cloudEvents:specversion": "1.0",
  "cloudEvents:tenant": "acme",
};
const id = derivedId("emails", "com.example.emails.welcome", "/shop", "ce-1");

test("a CloudEvent gives the same job in structured and in binary mode", () => {
  const one = decode("cloudevents", structured, {
    contentType: "application/cloudevents+json; charset=utf-8",
  });
  const other = decode("cloudevents", '{"n":1e400}', { headers: binary });

  expect(reasonOf(one) ?? reasonOf(other)).toBeUndefined();
  expect(one).toEqual(other);
  expect(one).toMatchObject({
    id,
    type: "com.example.emails.welcome",
    payload: '{"n":1e400}',
    enqueuedAt: new Date("2026-11-30T05:00:00.000Z"),
  });
  expect({ ...one.headers }).toEqual(binary);
});

test("a CloudEvent is told by its content type or headers in a queue of plain JSON", () => {
  expect(decode("json", structured, { contentType: "application/cloudevents+json" }).id).toBe(id);
  expect(decode("json", '{"n":1}', { headers: binary }).id).toBe(id);
});

test.each(["cloudEvents_", "ce-"])("binary attributes may be spelled with %s", (prefix) => {
  const headers = Object.fromEntries(
    Object.entries(binary).map(([name, value]) => [name.replace("cloudEvents:", prefix), value]),
  );

  expect(decode("cloudevents", "{}", { headers })).toMatchObject({
    id,
    type: "com.example.emails.welcome",
  });
});

test("a CloudEvent's id counts together with its source", () => {
  const other = decode("cloudevents", structured.replace("/shop", "/other"));

  expect(other.id).not.toBe(id);
});

test("data_base64 that holds JSON is the payload, other data_base64 is undecodable", () => {
  const event = (data: string): string =>
    `{"specversion":"1.0","type":"t","source":"s","id":"1","data_base64":"${Buffer.from(data).toString("base64")}"}`;

  expect(decode("cloudevents", event('{"a":1}')).payload).toBe('{"a":1}');
  expect(reasonOf(decode("cloudevents", event("<xml/>")))).toMatch(
    /^undecodable: the CloudEvent's data_base64/,
  );
});

test("a CloudEvent without data has the payload null, a body without specversion is none", () => {
  expect(
    decode("cloudevents", '{"specversion":"1.0","type":"t","source":"s","id":"1"}').payload,
  ).toBe("null");
  for (const body of ["{}", "[]", "1", '{"specversion":1}']) {
    expect(reasonOf(decode("cloudevents", body))).toMatch(
      /^undecodable: the body is no CloudEvent/,
    );
  }
});
