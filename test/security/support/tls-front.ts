/** Ends TLS in front of a server, as a load balancer does: any certificate, or none, before real servers. */

import { connect } from "node:net";
import { TLSSocket } from "node:tls";
import { startLoopbackServer } from "../../support/index.ts";
import type { Certificate } from "./certificates.ts";

/** What a PostgreSQL client sends first where it wants TLS: length 8, code 80877103 (protocol 3.0, "SSLRequest"). */
const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/** See startTlsFront. */
export interface TlsFront extends AsyncDisposable {
  /** The server's URL by way of the front, on 127.0.0.1. */
  readonly url: string;
  /** What clients sent in the clear, before or without TLS. */
  readonly plain: () => string;
}

/**
 * Starts it in front of the server of `target` (postgres: or amqp:).
 *
 * @param certificate undefined: a server, or somebody on the way, that says that it speaks no TLS
 */
export async function startTlsFront(target: string, certificate?: Certificate): Promise<TlsFront> {
  const to = new URL(target);
  const isPostgres = to.protocol.startsWith("postgres");
  const plain: Buffer[] = [];
  const front = await startLoopbackServer((socket, keep) => {
    const secure = (): void => {
      const client = new TLSSocket(socket, { isServer: true, ...certificate });
      const server = connect(Number(to.port), to.hostname);
      keep(client);
      keep(server);
      client.pipe(server).pipe(client);
      client.on("close", () => server.destroy());
    };
    if (!isPostgres && certificate !== undefined) {
      secure();
      return;
    }
    socket.once("data", (first) => {
      plain.push(first);
      if (certificate !== undefined && first.equals(sslRequest)) {
        socket.write("S");
        secure();
        return;
      }
      socket.on("data", (more) => plain.push(more));
      socket.write(isPostgres ? "N" : "AMQP\0\0\u0009\u0001");
    });
  });
  const url = new URL(isPostgres ? target : target.replace(/^amqp:/, "amqps:"));
  url.hostname = "127.0.0.1";
  url.port = String(front.port);
  if (isPostgres) url.searchParams.set("sslmode", "verify-full");
  return {
    url: url.href,
    plain: () => Buffer.concat(plain).toString("latin1"),
    [Symbol.asyncDispose]: () => front[Symbol.asyncDispose](),
  };
}
