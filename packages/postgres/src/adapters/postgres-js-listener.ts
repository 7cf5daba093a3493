import type { JobListener } from "../job-listener.ts";
import { settlesWithin } from "../settles-within.ts";

/** The root `sql` of postgres.js, by its shape. */
export interface PostgresJsListenLike {
  listen(
    channel: string,
    onNotify: (payload: string) => void,
    onListen?: () => void,
  ): PromiseLike<{ readonly unlisten: () => Promise<void> }>;
}

/** A channel that postgres.js was asked to listen to. */
interface Subscription {
  heard: ((payload: string) => void) | undefined;
  lost: (() => void) | undefined;
  /** Times that it has begun to listen: more than one after its connection was lost. */
  connections: number;
  readonly listens: PromiseWithResolvers<void>;
}

const closeMaxMs = 2_000;

/**
 * Hears notifications through `sql.listen` of postgres.js, which keeps a connection of its own for
 * that, opens it again by itself, and closes it with `sql.end()`.
 *
 * The `sql` must lead to PostgreSQL directly or through a session pooler. Through a transaction pooler
 * nothing is heard: that is found out, and jobs are watched by polling.
 */
export function postgresJsListener(sql: PostgresJsListenLike): JobListener {
  const subscriptions = new Map<string, Subscription>();
  let pings = 0;
  const unlistens = new WeakMap<Subscription, () => Promise<void>>();

  const subscribe = async (channel: string): Promise<Subscription> => {
    const subscription: Subscription = {
      heard: undefined,
      lost: undefined,
      connections: 0,
      listens: Promise.withResolvers(),
    };
    subscriptions.set(channel, subscription);
    const { unlisten } = await sql.listen(
      channel,
      (payload) => subscription.heard?.(payload),
      () => {
        subscription.connections += 1;
        subscription.listens.resolve();
        if (subscription.connections > 1) subscription.lost?.();
      },
    );
    unlistens.set(subscription, unlisten);
    return subscription;
  };

  return {
    async listen({ channel, heard }) {
      // After a failure postgres.js goes on trying by itself: asking again would listen twice.
      const subscription = subscriptions.get(channel) ?? (await subscribe(channel));
      await subscription.listens.promise;
      const { promise: ended, resolve } = Promise.withResolvers<void>();
      subscription.heard = heard;
      subscription.lost = resolve;
      return {
        ended,
        async ping() {
          // A channel of its own on the same connection: asking for a known one again sends nothing.
          pings += 1;
          const { unlisten } = await sql.listen(`${channel}.${pings}`, () => undefined);
          await unlisten();
        },
        async close() {
          // Opened anew before this one was closed, where it took too long.
          if (subscription.heard !== heard) return;
          subscription.heard = undefined;
          subscription.lost = undefined;
          const unlisten = unlistens.get(subscription);
          // What postgres.js has begun again by itself it does not end any more: that is kept, deaf,
          // for the next time.
          if (subscription.connections !== 1 || unlisten === undefined) return;
          subscriptions.delete(channel);
          await settlesWithin(
            unlisten().catch(() => undefined),
            closeMaxMs,
          );
        },
      };
    },
  };
}
