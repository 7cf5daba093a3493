import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

/** The provider: a server in the demo's own process that can be made to fail. */
export interface PaymentsApi extends AsyncDisposable {
  readonly url: string;
  /** From now on every call ends without an answer. */
  goDown(): void;
  comeBack(): void;
}

const answerMs = 60;
/** A provider that goes down lets callers wait before it drops them. */
const dropMs = 150;

/** Starts it on a port of its own; it is up. */
export async function startPaymentsApi(): Promise<PaymentsApi> {
  let isDown = false;
  const server = createServer((request, response) => {
    const isDropped = isDown;
    request.resume();
    void delay(isDropped ? dropMs : answerMs).then(() => {
      if (isDropped) request.socket.destroy();
      else response.writeHead(204).end();
    });
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The server has no port.");
  return {
    url: `http://127.0.0.1:${address.port}`,
    goDown: () => void (isDown = true),
    comeBack: () => void (isDown = false),
    async [Symbol.asyncDispose]() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
    },
  };
}
