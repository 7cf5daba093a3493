import { type AddressInfo, connect, createServer, type Socket } from "node:net";

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
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port || 5_432), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      socket.on("error", () => {
        client.destroy();
        upstream.destroy();
      });
    }
    const rewrite = rewriterOf();
    client.pipe(upstream);
    upstream.on("data", (chunk) => client.write(rewrite(chunk)));
    upstream.on("end", () => client.end());
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await promise;
  const url = new URL(databaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((done) => server.close(done));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
