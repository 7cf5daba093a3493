import { type AddressInfo, createServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";

/** A server of a test's own on 127.0.0.1. Its end destroys all its sockets. */
export interface LoopbackServer extends AsyncDisposable {
  readonly port: number;
}

/**
 * Starts it on a free port. A socket that fails is destroyed, and fails no test.
 *
 * @param onClient gets each client, and what takes further sockets that are to end with the server
 */
export async function startLoopbackServer(
  onClient: (client: Socket, keep: (socket: Duplex) => void) => void,
): Promise<LoopbackServer> {
  const sockets = new Set<Duplex>();
  const keep = (socket: Duplex): void => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    onClient(client, keep);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
