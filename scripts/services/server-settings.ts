import type { PrivatePostgresOptions, PrivateRabbitmqOptions } from "./private-server.ts";

/** Arguments of the `postgres` command that every PostgreSQL of ours runs with; `own` are those of its kind. */
export function postgresSettings(
  options: PrivatePostgresOptions,
  own: Readonly<Record<string, string>> = {},
): string[] {
  const settings: Record<string, string> = {
    max_connections: "300",
    shared_buffers: "128MB",
    // Files of the data directory instead of /dev/shm: a killed server leaves nothing there.
    dynamic_shared_memory_type: "mmap",
    autovacuum_naptime: "10s",
    ...own,
    ...(options.fsync === false
      ? { fsync: "off", full_page_writes: "off", synchronous_commit: "off" }
      : {}),
    ...options.settings,
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

/** The file of enabled plugins. */
export function rabbitmqPlugins(options: PrivateRabbitmqOptions): string {
  const plugins = [
    "rabbitmq_management",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
    ...(options.plugins ?? []),
  ];
  return `[${plugins.join(",")}].\n`;
}

/**
 * Argument of the Erlang machine under every RabbitMQ of ours, one word since RabbitMQ's script splits at spaces. The
 * registration of a new quorum queue (a dets table) reaches the disk some seconds after the queue is declared, and a
 * broker killed before comes back with a queue that has a log and never a leader (3.10). Syncing all the time, and waiting for
 * a few rounds before a kill, keeps that window away from tests that kill brokers for other reasons.
 */
export const RABBITMQ_SYNC_TABLES: string =
  "-eval spawn(fun()->F=fun(G)->catch[dets:sync(T)||T<-dets:all()],timer:sleep(20),G(G)end,F(F)end).";

/** How long the syncing above needs at most, on a busy machine, to have seen a change. */
export const RABBITMQ_SYNC_MS = 200;

/** Lines of rabbitmq.conf that every RabbitMQ of ours runs with. */
export function rabbitmqConfig(options: PrivateRabbitmqOptions): string {
  return [
    "disk_free_limit.absolute = 50MB",
    // The default keeps up to 512 MiB of log in memory.
    "raft.wal_max_size_bytes = 64000000",
    options.config ?? "",
    "",
  ].join("\n");
}
