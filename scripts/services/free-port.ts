import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Below the range that systems hand out to outgoing connections (from 32768 on Linux, 49152 elsewhere): the port of a
 * server that is down for a moment can neither be taken by somebody's connection nor be connected to itself.
 */
const RANGE = { from: 20_000, to: 32_000 };

/** Whether nothing listens on `port` of the loopback address. */
async function isFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = createServer();
  server.once("error", () => resolve(false));
  server.listen({ host: "127.0.0.1", port, exclusive: true }, () => {
    server.close(() => resolve(true));
  });
  return await promise;
}

/**
 * A TCP port of the loopback address on which nothing listens now.
 * @throws Error when 200 random ports were all taken
 */
export async function freePort(): Promise<number> {
  for (let round = 0; round < 200; round++) {
    const port = randomInt(RANGE.from, RANGE.to);
    if (await isFree(port)) return port;
  }
  throw new Error(
    `Cannot find a free port: 200 random ports between ${RANGE.from} and ${RANGE.to} are taken.`,
  );
}
