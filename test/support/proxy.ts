import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** `out` is client to server, `in` is server to client. */
export type ProxyDirection = "out" | "in";

/** A TCP proxy that fails on demand. Everything applies to present and future connections unless it says otherwise. */
export interface FaultProxy extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** The same URL with the proxy's address. */
  url(serverUrl: string): string;
  /** Connections that the client side has open. */
  readonly connectionCount: number;
  /** Connections accepted so far. */
  readonly acceptedCount: number;
  /** How often a `cutReply` or `cutBefore` has come true. */
  readonly triggeredCount: number;
  /** Undoes every fault; what a black hole swallowed stays lost. */
  pass(): void;
  /** Resets (RST) the open connections; new ones are accepted. */
  cut(): void;
  /** Resets the open connections and every new one, until `pass()`. */
  refuse(): void;
  /** Swallows the bytes of one direction or both while the connections stay open. */
  blackHole(direction?: ProxyDirection | "both"): void;
  /** A long way: each chunk of one direction or both arrives so much later, in their order. */
  slow(delayMs: number, direction?: ProxyDirection | "both"): void;
  /** Lets so many bytes of one direction or both through in a second; 0: as many as come. */
  throttle(bytesPerSecond: number, direction?: ProxyDirection | "both"): void;
  /**
   * Once the client has sent `pattern`: forwards it, drops everything that the server answers, and resets the
   * connection when the server has answered. The server has done the work; the client never learns. Applies once per call.
   */
  cutReply(pattern: string | Uint8Array): void;
  /** Once the client has sent `pattern`: resets the connection without forwarding it. Applies once per call. */
  cutBefore(pattern: string | Uint8Array): void;
}

interface Trigger {
  readonly pattern: Buffer;
  readonly kind: "reply" | "before";
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  /** The end of what the client has sent, so that a pattern split over two chunks is still seen. */
  tail: Buffer;
  isReplyLost: boolean;
  readonly queues: Record<ProxyDirection, Promise<void>>;
}

/** Whether the client has neither closed its connection nor ended its half of it. */
function isOpen({ client }: Link): boolean {
  return !client.destroyed && !client.readableEnded;
}

/** Starts a proxy on a free port of the loopback address in front of the server that a URL names. */
export async function startProxy(serverUrl: string): Promise<FaultProxy> {
  const target = new URL(serverUrl);
  const defaultPort = target.protocol.startsWith("amqp") ? 5672 : 5432;
  const address = {
    host: target.hostname.replace(/^\[|\]$/g, "") || "127.0.0.1",
    port: Number(target.port || defaultPort),
  };
  const links = new Set<Link>();
  const triggers = new Set<Trigger>();
  const swallows: Record<ProxyDirection, boolean> = { out: false, in: false };
  const delays: Record<ProxyDirection, number> = { out: 0, in: 0 };
  const rates: Record<ProxyDirection, number> = { out: 0, in: 0 };
  let isRefusing = false;
  let accepted = 0;
  let triggered = 0;

  const reset = (link: Link): void => {
    links.delete(link);
    link.client.resetAndDestroy();
    link.server.resetAndDestroy();
  };

  /** The trigger that this chunk sets off; each is used up by the first connection that does. */
  const firedBy = (link: Link, chunk: Buffer): Trigger | undefined => {
    if (triggers.size === 0) {
      link.tail = Buffer.alloc(0);
      return undefined;
    }
    const text = Buffer.concat([link.tail, chunk]);
    const longest = Math.max(...[...triggers].map((trigger) => trigger.pattern.length));
    link.tail = text.subarray(Math.max(0, text.length - longest + 1));
    const fired = [...triggers].find((trigger) => text.includes(trigger.pattern));
    if (fired === undefined) return undefined;
    triggers.delete(fired);
    triggered += 1;
    return fired;
  };

  const forward = (link: Link, direction: ProxyDirection, chunk: Buffer): void => {
    const [from, to] =
      direction === "out" ? [link.client, link.server] : [link.server, link.client];
    const write = (): void => {
      if (swallows[direction] || to.destroyed) return;
      if (to.write(chunk)) return;
      from.pause();
      to.once("drain", () => from.resume());
    };
    const rate = rates[direction];
    const sendMs = rate > 0 ? (chunk.length / rate) * 1_000 : 0;
    // A long way holds many chunks at a time, a narrow one sends one after the other.
    const arrivesAtMs = performance.now() + delays[direction];
    link.queues[direction] = link.queues[direction].then(async () => {
      const waitMs = Math.max(0, arrivesAtMs - performance.now()) + sendMs;
      if (waitMs > 0) await delay(waitMs);
      write();
    });
  };

  const onClientData = (link: Link, chunk: Buffer): void => {
    const fired = firedBy(link, chunk);
    if (fired?.kind === "before") return reset(link);
    if (fired?.kind === "reply") link.isReplyLost = true;
    forward(link, "out", chunk);
  };

  const onServerData = (link: Link, chunk: Buffer): void => {
    if (link.isReplyLost) return reset(link);
    forward(link, "in", chunk);
  };

  const listener = createServer({ allowHalfOpen: true }, (client) => {
    accepted += 1;
    if (isRefusing) {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ ...address, allowHalfOpen: true });
    const link: Link = {
      client,
      server,
      tail: Buffer.alloc(0),
      isReplyLost: false,
      queues: { out: Promise.resolve(), in: Promise.resolve() },
    };
    links.add(link);
    for (const [from, to, direction] of [
      [client, server, "out"],
      [server, client, "in"],
    ] as const) {
      from.setNoDelay(true);
      // What a black hole swallows includes the news that one side is gone.
      from.on("error", () => {
        if (!swallows[direction]) reset(link);
      });
      // An end travels behind the data that came before it.
      from.on("end", () => {
        void link.queues[direction].then(() => swallows[direction] || to.end());
      });
    }
    client.on("data", (chunk) => onClientData(link, chunk));
    server.on("data", (chunk) => onServerData(link, chunk));
    for (const socket of [client, server]) {
      socket.on("close", () => {
        if (client.destroyed && server.destroyed) links.delete(link);
      });
    }
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  listener.once("error", reject);
  listener.listen({ host: "127.0.0.1", port: 0 }, resolve);
  await promise;
  const { port } = listener.address() as AddressInfo;

  const cut = (): void => {
    for (const link of links) reset(link);
  };
  const both = (direction: ProxyDirection | "both"): readonly ProxyDirection[] =>
    direction === "both" ? ["out", "in"] : [direction];

  return {
    host: "127.0.0.1",
    port,
    url(text) {
      const url = new URL(text);
      url.hostname = "127.0.0.1";
      url.port = String(port);
      return url.href;
    },
    get connectionCount() {
      return [...links].filter(isOpen).length;
    },
    get acceptedCount() {
      return accepted;
    },
    get triggeredCount() {
      return triggered;
    },
    pass() {
      isRefusing = false;
      triggers.clear();
      for (const direction of ["out", "in"] as const) {
        swallows[direction] = false;
        delays[direction] = 0;
        rates[direction] = 0;
      }
    },
    cut,
    refuse() {
      isRefusing = true;
      cut();
    },
    blackHole(direction = "both") {
      for (const one of both(direction)) swallows[one] = true;
    },
    slow(delayMs, direction = "both") {
      for (const one of both(direction)) delays[one] = delayMs;
    },
    throttle(bytesPerSecond, direction = "both") {
      for (const one of both(direction)) rates[one] = bytesPerSecond;
    },
    cutReply(pattern) {
      triggers.add({ pattern: Buffer.from(pattern), kind: "reply" });
    },
    cutBefore(pattern) {
      triggers.add({ pattern: Buffer.from(pattern), kind: "before" });
    },
    async [Symbol.asyncDispose]() {
      cut();
      const closed = Promise.withResolvers<void>();
      listener.close(() => closed.resolve());
      await closed.promise;
    },
  };
}
