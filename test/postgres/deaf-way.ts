import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A way to PostgreSQL on which LISTEN succeeds and nothing is ever heard, as behind a transaction pooler. */
export interface DeafWay extends AsyncDisposable {
  readonly url: string;
}

/** Tag of a NotificationResponse. */
const notification = "A".charCodeAt(0);

/** Takes the notifications out of what a server sends. Each message: a tag, its length, its body. */
function withoutNotifications(): (chunk: Buffer) => Buffer {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const passed: Buffer[] = [];
    while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
      const length = 1 + rest.readInt32BE(1);
      if (rest[0] !== notification) passed.push(rest.subarray(0, length));
      rest = rest.subarray(length);
    }
    return Buffer.concat(passed);
  };
}

/** See {@link DeafWay}. */
export async function startDeafWay(databaseUrl: string): Promise<DeafWay> {
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
    const filtered = withoutNotifications();
    client.pipe(upstream);
    upstream.on("data", (chunk) => client.write(filtered(chunk)));
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
