import * as fc from "fast-check";
import { expect, test } from "vitest";
import { cleanText, redactUrl } from "./text.ts";

test("S10: clean text is well-formed, in bounds, and free of control characters, for any text", () => {
  const anything = fc.string({ unit: "binary", maxLength: 300 });
  fc.assert(
    fc.property(anything, fc.integer({ min: 1, max: 200 }), (text, max) => {
      const clean = cleanText(text, max);

      expect(clean.length).toBeLessThanOrEqual(max);
      expect(clean.isWellFormed()).toBe(true);
      expect(clean).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/);
    }),
  );
});

test("S10: cleaning takes colours, NUL, lone surrogates and bidirectional marks out and keeps the words", () => {
  expect(cleanText("\u001b[31mred\u001b[0m\u0000 \ud800 \u202eabc\ttab\nline", 100)).toBe(
    "red  \ufffd  abc\ttab\nline",
  );
});

test("a long text ends with an ellipsis at its limit", () => {
  expect(cleanText("a".repeat(11), 10)).toBe(`${"a".repeat(9)}…`);
  expect(cleanText("a".repeat(10), 10)).toBe("a".repeat(10));
});

test("credentials of URLs inside a text are masked, also with @ and / in the password", () => {
  const masked = cleanText(
    "cannot reach amqp://waybill:s3cret@broker:5672/vhost or postgres://u:p@ss/w0rd@db/x, token ftp://t0ken@h",
    500,
  );

  expect(masked).toBe(
    "cannot reach amqp://***@broker:5672/vhost or postgres://***@db/x, token ftp://***@h",
  );
});

test("an address in a path or behind a port is not taken for a password", () => {
  const text = "GET https://api.example.com:8443/users/ada@example.com and http://h/?q=a@b";

  expect(cleanText(text, 500)).toBe(text);
});

test("a password that the limit cuts in two does not show its first half", () => {
  const text = `${"\u001b[0m".repeat(10)}postgres://user:s3cret-and-long@host/db`;

  expect(cleanText(text, 34)).not.toContain("s3c");
});

test("cleaning takes time in proportion to the limit, not to the text", () => {
  const texts = [
    "a.".repeat(5_000_000),
    "a://".repeat(100_000),
    ":".repeat(100_000),
    "\u001b[".repeat(100_000),
  ];

  for (const text of texts) expect(cleanText(text, 2_048).length).toBeLessThanOrEqual(2_048);
});

test("a URL for logs has no user, no password and no secret parameter", () => {
  expect(redactUrl("amqp://waybill:s3cret@broker:5672/vhost")).toBe(
    "amqp://***:***@broker:5672/vhost",
  );
  expect(redactUrl("postgres://h/db?user=a&password=s3cret&sslmode=require")).toBe(
    "postgres://h/db?user=a&password=***&sslmode=require",
  );
  expect(redactUrl("postgres://user:s3cret@:/")).toBe("(not a URL)");
  expect(redactUrl("s3cret")).toBe("(not a URL)");
});
