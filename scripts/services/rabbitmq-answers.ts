import { connect } from "node:net";

/** Whether a broker at this address answers AMQP's greeting with a frame. */
export async function speaksAmqp(host: string, port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host, port });
  socket.setTimeout(2_000, () => resolve(false));
  socket.once("error", () => resolve(false));
  socket.once("close", () => resolve(false));
  socket.once("connect", () => socket.write("AMQP\u0000\u0000\u0009\u0001"));
  socket.once("data", (data) => resolve(data[0] === 1));
  const isBroker = await promise;
  socket.destroy();
  return isBroker;
}

/** Whether the management API knows the user: the node has booted to the end, and the credentials are right. */
export async function managementAnswers(
  managementUrl: string,
  credentials = "guest:guest",
): Promise<boolean> {
  try {
    const response = await fetch(`${managementUrl}/api/whoami`, {
      headers: { authorization: `Basic ${btoa(credentials)}` },
      signal: AbortSignal.timeout(2_000),
    });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}
