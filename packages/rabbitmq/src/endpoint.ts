import type { Options } from "amqplib";
import type { ConfigIssue } from "@waybill/core";
import { ConfigError } from "@waybill/core";

/** One broker address, taken apart. */
export interface Endpoint {
  readonly tls: boolean;
  readonly host: string;
  readonly port: number;
  readonly vhost: string;
  readonly username: string;
  /** The address fit for logs: credentials masked. */
  readonly display: string;
  /** What amqplib's connect takes. Holds the password: never log it. */
  readonly connect: Options.Connect;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parseUrl(text: string): Endpoint | string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return "expected a URL like amqp://user:password@host:5672/vhost";
  }
  if (url.protocol !== "amqp:" && url.protocol !== "amqps:") {
    return `expected amqp:// or amqps://, found ${url.protocol}//`;
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (host === "") return "expected a host name";
  const tls = url.protocol === "amqps:";
  const port = url.port === "" ? (tls ? 5671 : 5672) : Number(url.port);
  const vhost = url.pathname.length > 1 ? decode(url.pathname.slice(1)) : "/";
  const login = url.username !== "" || url.password !== "";
  const username = login ? decode(url.username) : "guest";
  const path = vhost === "/" ? "" : `/${encodeURIComponent(vhost)}`;
  return {
    tls,
    host,
    port,
    vhost,
    username,
    display: `${url.protocol}//${login ? "***@" : ""}${url.hostname}:${port}${path}`,
    connect: {
      protocol: tls ? "amqps" : "amqp",
      hostname: host,
      port,
      username,
      password: login ? decode(url.password) : "guest",
      // amqplib decodes it once more.
      vhost: encodeURIComponent(vhost),
    },
  };
}

/**
 * Takes broker URLs apart.
 *
 * @throws ConfigError that names every bad URL by its position, never by its text
 */
export function parseEndpoints(url: string | readonly string[]): readonly Endpoint[] {
  const urls = typeof url === "string" ? [url] : url;
  const issues: ConfigIssue[] = [];
  const endpoints: Endpoint[] = [];
  for (const [index, text] of urls.entries()) {
    const parsed = parseUrl(text);
    if (typeof parsed !== "string") endpoints.push(parsed);
    else issues.push({ path: typeof url === "string" ? "url" : `url.${index}`, message: parsed });
  }
  if (urls.length === 0) issues.push({ path: "url", message: "expected at least one URL" });
  if (issues.length > 0) throw new ConfigError("the broker connection", issues);
  return endpoints;
}

/** The endpoints in a random order, so that many processes do not all begin at the same node. */
export function shuffled<T>(items: readonly T[], random: () => number): readonly T[] {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    const [a, b] = [result[last], result[other]];
    if (a !== undefined && b !== undefined) [result[last], result[other]] = [b, a];
  }
  return result;
}
