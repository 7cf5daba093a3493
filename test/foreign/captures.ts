import { readFileSync } from "node:fs";

/** A header's value as it was captured: a tag with a text, or a list or table of such. */
type CapturedValue =
  | string
  | { readonly "A(array)": readonly CapturedValue[] }
  | { readonly "F(table)": Readonly<Record<string, CapturedValue>> };

/** A message as a client sent it. */
export interface Capture {
  readonly producer: string;
  readonly exchange: string;
  readonly routingKey: string;
  readonly mandatory: boolean;
  readonly properties: Readonly<Record<string, unknown>> & {
    readonly headers?: Readonly<Record<string, CapturedValue>>;
  };
  readonly body: string;
}

/** The captured messages, in the order of the file. */
export const captures: readonly Capture[] = JSON.parse(
  readFileSync(new URL("foreign-messages.json", import.meta.url), "utf8"),
) as readonly Capture[];

/** The exact bytes of a captured body. */
export function bodyOf({ body }: Capture): Buffer {
  return body.startsWith("hex:") ? Buffer.from(body.slice(4), "hex") : Buffer.from(body, "utf8");
}

/** A captured value with its AMQP type, as amqplib sends exactly that type. */
function typedValue(value: CapturedValue): unknown {
  if (typeof value === "object") {
    return "A(array)" in value ? value["A(array)"].map(typedValue) : typedTable(value["F(table)"]);
  }
  const [, tag = "", text = ""] = /^(.)\([a-z0-9]+\) ?(.*)$/s.exec(value) ?? [];
  switch (tag) {
    case "S":
      return JSON.parse(text) as unknown;
    case "V":
      return null;
    case "t":
      return text === "true";
    case "x":
      return Buffer.from(text, "hex");
    case "b":
      return { "!": "int8", value: Number(text) };
    case "I":
      return { "!": "int32", value: Number(text) };
    case "l":
      return { "!": "int64", value: Number(text) };
    case "f":
      return { "!": "float", value: Number(text) };
    case "d":
      return { "!": "double", value: Number(text) };
    case "T":
      return { "!": "timestamp", value: Number(text) };
    case "D": {
      const [digits, exponent] = text.split("e-");
      return { "!": "decimal", value: { digits: Number(digits), places: Number(exponent) } };
    }
    default:
      throw new Error(`Cannot read the captured value ${value}: its tag is unknown.`);
  }
}

function typedTable(table: Readonly<Record<string, CapturedValue>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(table).map(([name, value]) => [name, typedValue(value)]),
  );
}

/**
 * A capture's properties for amqplib.
 *
 * @param user the login's name: the broker refuses any other as userId
 */
export function propertiesOf({ properties }: Capture, user: string): Record<string, unknown> {
  const { headers, ...rest } = properties;
  return {
    ...rest,
    ...(headers === undefined ? {} : { headers: typedTable(headers) }),
    ...(rest["userId"] === undefined ? {} : { userId: user }),
  };
}
