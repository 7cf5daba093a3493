import type { PrivatePostgres, PrivateRabbitmq } from "./private-server.ts";

/** Where services can come from: given URLs, Docker, installed programs, or programs that had to be installed. */
export type ServicesSource = "url" | "docker" | "local" | "installed";

/** A PostgreSQL and a RabbitMQ that answer. */
export interface Services extends AsyncDisposable {
  /** A URL whose user may create databases. */
  readonly databaseUrl: string;
  readonly rabbitmqUrl: string;
  /** Address of RabbitMQ's management UI and HTTP API, without credentials, where there is one. */
  readonly managementUrl: string | undefined;
  readonly source: ServicesSource;
  /** Why this source, in half a sentence. */
  readonly why: string;
  /** The servers' controls, where they are ours. */
  readonly postgres: PrivatePostgres | undefined;
  readonly rabbitmq: PrivateRabbitmq | undefined;
  /** Ends what the resolver started and removes what it had on disk. Twice is legal. */
  stop(): Promise<void>;
}
