import type { Server } from "node:http";

/** Listens on HOST and PORT (by default a free one on the loopback address), says so on stdout, and closes at SIGTERM or SIGINT. */
export async function listen(server: Server, close: () => Promise<void>): Promise<void> {
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  const host = process.env["HOST"] ?? "127.0.0.1";
  server.listen(Number(process.env["PORT"] ?? 0), host, listening.resolve);
  await listening.promise;
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  console.log(`listening on http://${host}:${port}`);

  const stop = (): void => {
    server.close(() => void close());
    server.closeAllConnections();
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
}
