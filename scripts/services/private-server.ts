/** A server of our own, for tests that kill it: nobody else is on it. */
export interface PrivateServer extends AsyncDisposable {
  /** Stays the same over restarts. */
  readonly url: string;
  /** Port on the loopback address; stays the same over restarts. */
  readonly port: number;
  /** The server's process now; undefined while it is down and for a server in a container. */
  readonly pid: number | undefined;
  /** Where all its files are until it is stopped; undefined for a server in a container. */
  readonly directory: string | undefined;
  /**
   * Sends a signal to the whole server (all its processes) and, unless it only freezes or thaws it (SIGSTOP, SIGCONT),
   * waits until it is gone.
   * @param signal defaults to SIGKILL
   */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** Starts it on the same port and data and waits until it answers; nothing to do where it runs. */
  start(): Promise<void>;
  /** `kill()` and `start()`. */
  restart(): Promise<void>;
  /** Throws its data away, killing it first; `start()` then begins from nothing. */
  wipe(): Promise<void>;
  /** The server's own log so far. */
  log(): Promise<string>;
  /** Ends it and removes all that it had on disk. Twice is legal. */
  stop(): Promise<void>;
}

/** A private PostgreSQL; the URL is a superuser's. */
export type PrivatePostgres = PrivateServer;

/** A private RabbitMQ with the management and shovel plugins; the URL is the administrator's (guest). */
export interface PrivateRabbitmq extends PrivateServer {
  /** Address of the management UI and HTTP API, without credentials. */
  readonly managementUrl: string;
  /** Runs `rabbitmqctl` (1-2 s) on this server and resolves to what it prints. */
  ctl(...args: string[]): Promise<string>;
}

/** Options of startPrivatePostgres. */
export interface PrivatePostgresOptions {
  /**
   * Whether a commit survives the loss of the operating system. Off is much faster, with its files in memory where there
   * is room (not in a container); a killed process loses nothing either way.
   * @default true
   */
  readonly fsync?: boolean | undefined;
  /** Port on the loopback address. @default a free one */
  readonly port?: number | undefined;
  /** Further settings of postgresql.conf, by name. @default none */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Further variables of the server's environment, such as LD_PRELOAD; not for a server in a container. @default none */
  readonly environment?: Readonly<Record<string, string>> | undefined;
}

/** Options of startPrivateRabbitmq. */
export interface PrivateRabbitmqOptions {
  /** As of startPrivatePostgres: off, its files are in memory where there is room. @default true */
  readonly fsync?: boolean | undefined;
  /** Port of AMQP on the loopback address. @default a free one */
  readonly port?: number | undefined;
  /** Further lines of rabbitmq.conf. @default none */
  readonly config?: string | undefined;
  /** The text of advanced.config (an Erlang term). @default none */
  readonly advancedConfig?: string | undefined;
  /** Plugins beside management and shovel. @default none */
  readonly plugins?: readonly string[] | undefined;
}

/** How long a server may take until it answers. Two cores under load need most of it. */
export const STARTUP_TIMEOUT_MS = 120_000;
