/**
 * One TCP connection to the broker, from handshake to end. It owns what amqplib leaves open: a
 * limit for the whole handshake, detection of a silent peer, and a socket that is really gone.
 */

import { Socket } from "node:net";
import { connect, type ChannelModel } from "amqplib";
import type { Endpoint } from "./endpoint.ts";

/** One open AMQP connection. It never comes back: the next one is another link. */
export interface Link {
  readonly model: ChannelModel;
  readonly endpoint: Endpoint;
  readonly open: boolean;
  /** The reason of the broker's alarm while it has stopped reading from this connection. */
  readonly blocked: string | undefined;
  /** The last error the connection reported; on `close` it is the reason, where there is one. */
  readonly error: unknown;
  /** Resolves, never rejects, when the link has ended. */
  readonly ended: Promise<void>;
  /** Destroys the link at once. */
  fail(error: Error): void;
  /** Says goodbye, waits at most `timeoutMs`, then destroys the socket. Never rejects. */
  close(timeoutMs: number): Promise<void>;
}

/** What {@link openLink} needs to know. */
export interface LinkOptions {
  readonly name: string;
  readonly heartbeatSeconds: number;
  /** Limit of the whole handshake, DNS and TLS included, in milliseconds. */
  readonly connectTimeoutMs: number;
  /** Aborts the handshake. */
  readonly signal: AbortSignal;
  readonly onBlocked: (reason: string | undefined) => void;
  /** A listener of ours threw inside amqplib. */
  readonly onHandlerError: (error: Error) => void;
}

/** amqplib does not type its socket, but only the socket can be destroyed. */
function socketOf(model: ChannelModel): Socket {
  const { stream } = model.connection as unknown as { stream?: unknown };
  if (!(stream instanceof Socket)) throw new TypeError("amqplib's connection has no socket");
  return stream;
}

async function handshake(endpoint: Endpoint, options: LinkOptions): Promise<ChannelModel> {
  // amqplib's own timeout starts again with every byte; ours bounds the sum. The signal goes to
  // the socket, so that nothing of an attempt stays behind.
  const attempt = new AbortController();
  const abort = (): void => attempt.abort();
  const timer = setTimeout(abort, options.connectTimeoutMs);
  options.signal.addEventListener("abort", abort, { once: true });
  try {
    if (options.signal.aborted) attempt.abort();
    attempt.signal.throwIfAborted();
    const socketOptions = {
      noDelay: true,
      keepAlive: true,
      keepAliveDelay: 10_000,
      timeout: options.connectTimeoutMs,
      clientProperties: { connection_name: options.name },
      signal: attempt.signal,
    };
    return await connect(
      { ...endpoint.connect, heartbeat: options.heartbeatSeconds },
      // The option is node:net's own and amqplib passes it on, but its types stop at TLS.
      socketOptions,
    );
  } finally {
    clearTimeout(timer);
    options.signal.removeEventListener("abort", abort);
  }
}

/**
 * Calls `onSilence` once when nothing was read for 1.4 heartbeats: a living broker sends something
 * every half heartbeat, and amqplib itself waits up to three.
 */
function watchSilence(socket: Socket, heartbeatSeconds: number, onSilence: () => void): () => void {
  const limitMs = heartbeatSeconds * 1_400;
  let bytes = socket.bytesRead;
  let readAt = performance.now();
  let tickedAt = readAt;
  const tick = (): void => {
    const now = performance.now();
    // After a blocked event loop the bytes wait in the kernel: they get a chance to be read first.
    if (socket.bytesRead !== bytes || now - tickedAt > 3_000) readAt = now;
    bytes = socket.bytesRead;
    tickedAt = now;
    if (now - readAt > limitMs) onSilence();
  };
  const timer = setInterval(tick, Math.min(1_000, limitMs / 4));
  timer.unref();
  return () => clearInterval(timer);
}

/**
 * Opens a connection.
 *
 * @throws whatever the socket, TLS or the handshake failed with
 */
export async function openLink(endpoint: Endpoint, options: LinkOptions): Promise<Link> {
  const model = await handshake(endpoint, options);
  // No await from here to the last listener: an 'error' without a listener ends the process.
  let open = true;
  let blocked: string | undefined;
  let error: unknown;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const socket = socketOf(model);

  const fail = (reason: Error): void => {
    error ??= reason;
    // With an error, because a silent destroy never reaches amqplib's own bookkeeping.
    socket.destroy(reason);
  };
  const stopWatching = watchSilence(socket, options.heartbeatSeconds, () =>
    fail(new Error("the broker is silent: no heartbeat")),
  );
  model.on("error", (reason: Error) => {
    error ??= reason;
  });
  model.on("handler-error", options.onHandlerError);
  model.on("blocked", (reason: string) => {
    blocked = reason;
    options.onBlocked(reason);
  });
  model.on("unblocked", () => {
    blocked = undefined;
    options.onBlocked(undefined);
  });
  // The one trigger: a forced close comes without any 'error'.
  model.on("close", (reason?: Error) => {
    error ??= reason;
    open = false;
    stopWatching();
    // amqplib only ends the socket; on a black-holed network that would stay open for minutes.
    setTimeout(() => socket.destroy(), 500).unref();
    end();
  });

  if (socket.destroyed || socket.writableEnded) {
    stopWatching();
    socket.destroy();
    throw new Error(
      "the broker closed the connection right after the handshake (CONNECTION_FORCED)",
    );
  }

  return {
    model,
    endpoint,
    ended,
    fail,
    get open() {
      return open;
    },
    get blocked() {
      return blocked;
    },
    get error() {
      return error;
    },
    async close(timeoutMs) {
      if (!open) return;
      const timer = setTimeout(() => fail(new Error("no answer to the goodbye")), timeoutMs);
      // Not awaited: it never settles where the socket dies before the answer. `ended` always does.
      model.close().catch(() => undefined);
      await ended;
      clearTimeout(timer);
    },
  };
}
