import { connect } from "node:net";
import { startLoopbackServer } from "./loopback-server.ts";

/** A way to PostgreSQL that changes what the server says. */
export interface RewritingWay extends AsyncDisposable {
  readonly url: string;
}

/**
 * Passes everything on, what comes from the server as `rewriterOf` makes it.
 *
 * @param rewriterOf called for each connection; gets what the server sends, in pieces as they come
 */
export async function startRewritingWay(
  databaseUrl: string,
  rewriterOf: () => (chunk: Buffer) => Buffer,
): Promise<RewritingWay> {
  const target = new URL(databaseUrl);
  const server = await startLoopbackServer((client, keep) => {
    const upstream = connect(Number(target.port || 5_432), target.hostname);
    keep(upstream);
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
    const rewrite = rewriterOf();
    client.pipe(upstream);
    upstream.on("data", (chunk) => client.write(rewrite(chunk)));
    upstream.on("end", () => client.end());
  });
  const url = new URL(databaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String(server.port);
  return { url: url.href, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}
