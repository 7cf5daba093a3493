import type { JobListener } from "../job-listener.ts";
import { settlesWithin } from "../settles-within.ts";

/** A connected `pg` Client by its shape. */
export interface PgClientLike {
  query(text: string): Promise<unknown>;
  on(
    event: "notification",
    listener: (message: { readonly payload?: string | undefined }) => void,
  ): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  end(): Promise<void>;
}

/** Parts of the driver that its types leave out. */
interface DriverParts {
  readonly connection?: { readonly stream?: { destroy(): void } };
}

const closeMaxMs = 2_000;

async function close(client: PgClientLike): Promise<void> {
  const ended = client.end().catch(() => undefined);
  if (await settlesWithin(ended, closeMaxMs)) return;
  // A half-open connection does not answer the goodbye, and would keep the process alive.
  (client as unknown as DriverParts).connection?.stream?.destroy();
}

/**
 * Hears notifications on a `pg` Client of its own. The function is called for each new connection and
 * gives a client that is connected; Waybill ends it.
 *
 * It must lead to PostgreSQL directly or through a session pooler. Through a transaction pooler
 * nothing is heard: that is found out, and jobs are watched by polling.
 *
 * @example
 * const listener = pgListener(async () => {
 *   const client = new Client({ connectionString, connectionTimeoutMillis: 5_000 });
 *   await client.connect();
 *   return client;
 * });
 */
export function pgListener(connect: () => Promise<PgClientLike>): JobListener {
  return {
    async listen({ statement, heard }) {
      const client = await connect();
      const { promise: ended, resolve: end } = Promise.withResolvers<void>();
      // Without a listener the end of the connection would end the process.
      client.on("error", () => end());
      client.on("end", () => end());
      client.on("notification", ({ payload }) => heard(payload ?? ""));
      const ping = async (): Promise<void> => {
        await client.query(statement);
      };
      try {
        await ping();
      } catch (error) {
        await close(client);
        throw error;
      }
      return { ended, ping, close: () => close(client) };
    },
  };
}
