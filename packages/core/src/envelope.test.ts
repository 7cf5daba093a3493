import * as fc from "fast-check";
import { expect, test } from "vitest";
import { decodeEnvelope, isUnreadable } from "./decode.ts";
import {
  type Dispatch,
  encodeEnvelope,
  type IncomingMessage,
  topologyNames,
  waybillHeaders,
} from "./envelope.ts";

const names = topologyNames();
const text = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 30 })
  .filter((each) => !/[\u0000-\u001f\u007f]/.test(each) && each.isWellFormed());
const instants = fc.date({
  min: new Date("2001-01-01"),
  max: new Date("2026-11-30"),
  noInvalidDate: true,
});
const headerNames = fc
  .stringMatching(/^[a-z][a-z0-9_.-]{0,20}$/)
  .filter((name) => !/^(x-|waybill-|b?cc$)/.test(name) && name !== "compression");

const jobs: fc.Arbitrary<Dispatch & { readonly queue: string }> = fc.record({
  id: fc.uuid(),
  kind: fc.constant("job" as const),
  dispatch: fc.integer({ min: 1, max: 1_000_000_000 }),
  queue: fc.constantFrom("emails", "default"),
  type: fc.stringMatching(/^[a-z][a-z0-9._:/-]{0,60}$/),
  version: fc.integer({ min: 1, max: 32_767 }),
  exchange: fc.constant(null),
  routingKey: fc.constant(null),
  payload: fc.jsonValue().map((value) => JSON.stringify(value)),
  payloadBase64: fc.constant(false),
  headers: fc.option(fc.dictionary(headerNames, text, { maxKeys: 10 }), { nil: null }),
  priority: fc.option(fc.integer({ min: -100, max: 100 }), { nil: null }),
  orderingKey: fc.option(text, { nil: null }),
  correlationId: fc.option(text, { nil: null }),
  expiresAt: fc.option(instants, { nil: null }),
  enqueuedAt: instants,
});

/** What amqplib and the broker make of it: numbers in headers travel as int64, ids are texts. */
function travel(row: Dispatch, asNumber: (value: number) => unknown): IncomingMessage {
  const sent = encodeEnvelope(row, names);
  return {
    queue: row.queue ?? "",
    content: Buffer.from(sent.content),
    messageId: sent.messageId,
    type: sent.type,
    correlationId: sent.correlationId,
    contentType: sent.contentType,
    contentEncoding: undefined,
    timestamp: sent.timestampSeconds,
    priority: sent.priority,
    redelivered: false,
    headers: Object.fromEntries(
      Object.entries(sent.headers).map(([name, value]) => [
        name,
        typeof value === "number" ? asNumber(value) : value,
      ]),
    ),
  };
}

const context = {
  decoder: "json" as const,
  maxBytes: 8_388_608,
  newId: (): string => "unused",
  now: (): Date => new Date("2026-11-30T08:00:00Z"),
};

const arrivals = fc.constantFrom<(value: number) => unknown>(
  (value) => value,
  BigInt,
  String,
  (value) => ({ "!": "int64", value }),
);

test("a job arrives as it was written to the outbox", () => {
  fc.assert(
    fc.property(jobs, arrivals, (row, asNumber) => {
      const envelope = decodeEnvelope(travel(row, asNumber), context);

      expect(isUnreadable(envelope)).toBe(false);
      expect(envelope).toMatchObject({
        id: row.id,
        idSource: /^[0-]+$|^[f-]+$/.test(row.id) ? "fresh" : "given",
        queue: row.queue,
        type: row.type,
        version: row.version,
        dispatch: row.dispatch,
        death: 0,
        priority: row.priority,
        orderingKey: row.orderingKey,
        correlationId: row.correlationId,
        enqueuedAt: row.enqueuedAt,
        expiresAt: row.expiresAt,
        payload: row.payload,
        payloadBase64: false,
      });
      expect({ ...envelope.headers }).toEqual({ ...row.headers });
    }),
    { numRuns: 300 },
  );
});

test("bytes that are no text arrive as the same bytes", () => {
  fc.assert(
    fc.property(jobs, fc.uint8Array({ minLength: 1, maxLength: 50 }), (row, bytes) => {
      const payload = Buffer.from([0xff, ...bytes]).toString("base64");

      const envelope = decodeEnvelope(
        travel({ ...row, payload, payloadBase64: true }, Number),
        context,
      );

      expect(envelope).toMatchObject({ payload, payloadBase64: true, failureClass: "undecodable" });
    }),
  );
});

test("a first dispatch goes through the jobs exchange, a later one to its queue alone", () => {
  fc.assert(
    fc.property(jobs, (row) => {
      const { exchange, routingKey } = encodeEnvelope(row, names);

      expect({ exchange, routingKey }).toEqual(
        row.dispatch === 1
          ? { exchange: "waybill.jobs", routingKey: row.queue }
          : { exchange: "", routingKey: `waybill.${row.queue}` },
      );
    }),
  );
});

const [row] = fc.sample(jobs, { numRuns: 1, seed: 1 }) as [Dispatch];

test.each([
  [{ kind: "event", queue: null, type: "order.paid" }, "waybill.events", "order.paid"],
  [{ kind: "dead_letter", queue: "emails" }, "waybill.dlx", "emails"],
  [{ kind: "route", queue: null, exchange: "legacy", routingKey: "a.b" }, "legacy", "a.b"],
] as const)("%o is addressed to its exchange", (parts, exchange, routingKey) => {
  expect(encodeEnvelope({ ...row, ...parts }, names)).toMatchObject({ exchange, routingKey });
});

test("a message for a consumer that is not Waybill's carries no header of Waybill's", () => {
  const sent = encodeEnvelope(
    { ...row, kind: "route", exchange: "e", routingKey: "k", headers: { tenant: "a" } },
    names,
  );

  expect({ ...sent.headers }).toEqual({ tenant: "a" });
});

test("the event of a job's end travels in the headers, and is none of the application's", () => {
  const headers = { tenant: "acme", [waybillHeaders.onTerminal]: "report.ended" };

  const own = decodeEnvelope(travel({ ...row, headers }, Number), context);
  const none = decodeEnvelope(travel({ ...row, headers: null }, Number), context);

  expect(own.onTerminal).toBe("report.ended");
  expect({ ...own.headers }).toEqual({ tenant: "acme" });
  expect(none.onTerminal).toBeNull();
});

test("an application's header cannot stand in for one of Waybill's", () => {
  const forged = { [waybillHeaders.dispatch]: "99", [waybillHeaders.version]: "99" };

  const sent = encodeEnvelope({ ...row, dispatch: 1, version: 1, headers: forged }, names);

  expect(sent.headers).toMatchObject({ [waybillHeaders.dispatch]: 1, [waybillHeaders.version]: 1 });
});

test("the broker's priority is cut to 0 to 9, Waybill's own travels in a header", () => {
  const sent = [-100, 0, 9, 100].map((priority) => encodeEnvelope({ ...row, priority }, names));

  expect(sent.map((each) => each.priority)).toEqual([0, 0, 9, 9]);
  expect(sent.map((each) => each.headers[waybillHeaders.priority])).toEqual([-100, 0, 9, 100]);
});

test("names at the broker follow the prefix", () => {
  const own = topologyNames("shop");

  expect([
    own.jobsExchange,
    own.dlxExchange,
    own.eventsExchange,
    own.queueName("a"),
    own.deadLetterQueueName("a"),
  ]).toEqual(["shop.jobs", "shop.dlx", "shop.events", "shop.a", "shop.a.dlq"]);
});

test("S6: a dispatch that no job reaches makes a message unreadable, and no old copy", () => {
  const read = (dispatch: number): unknown =>
    decodeEnvelope(travel({ ...row, dispatch }, Number), context);

  expect(read(1_000_000_000)).not.toHaveProperty("reason");
  expect(read(1_000_000_001)).toMatchObject({
    dispatch: 1_000_000_001,
    failureClass: "undecodable",
    reason: "the dispatch 1000000001 is beyond 1000000000, which no job reaches",
  });
});
