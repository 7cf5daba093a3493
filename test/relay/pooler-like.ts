import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A way to PostgreSQL that looks like a transaction pooler; see {@link startPoolerLike}. */
export interface PoolerLike extends AsyncDisposable {
  readonly url: string;
}

/** BackendKeyData, which tells a client its server process: tag, length 12, process, key. */
const keyData = Buffer.from([0x4b, 0, 0, 0, 12]);

/**
 * Passes everything on, but tells clients another server process than the one that answers them, as
 * every pooler does.
 */
export async function startPoolerLike(databaseUrl: string): Promise<PoolerLike> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port || 5_432), target.hostname);
    let told = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      socket.on("error", () => {
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    upstream.on("data", (chunk) => {
      const at = told ? -1 : chunk.indexOf(keyData);
      if (at >= 0) {
        told = true;
        chunk.writeInt32BE(chunk.readInt32BE(at + 5) ^ 0x5a5a, at + 5);
      }
      client.write(chunk);
    });
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
