/** A topology as RabbitMQ's definitions.json, for `load_definitions` and the management UI. */

import { createHash, randomBytes } from "node:crypto";
import { names, type Topology } from "./topology.ts";

/** A user to create with the definitions. */
export interface DefinitionsUser {
  readonly name: string;
  /** From {@link hashPassword}; the file never holds a plain password. */
  readonly passwordHash: string;
  /** @default [] */
  readonly tags?: readonly string[] | undefined;
  /** Permissions, each a regular expression over names. @default ".*" */
  readonly permissions?:
    | { readonly configure: string; readonly write: string; readonly read: string }
    | undefined;
}

/** Options of {@link definitionsOf}. */
export interface DefinitionsOptions {
  /** @default "/" */
  readonly vhost?: string | undefined;
  /**
   * A blank broker that loads definitions creates no default user, so name at least one.
   * @default []
   */
  readonly users?: readonly DefinitionsUser[] | undefined;
  /**
   * Limit of each work queue, in bytes; beyond it the broker refuses messages, which then wait in
   * the outbox.
   * @default 1073741824
   */
  readonly maxLengthBytes?: number | undefined;
}

/** RabbitMQ's definitions.json, the parts Waybill writes. */
export interface Definitions {
  readonly vhosts: readonly { readonly name: string }[];
  readonly users: readonly {
    readonly name: string;
    readonly password_hash: string;
    readonly hashing_algorithm: "rabbit_password_hashing_sha256";
    readonly tags: readonly string[];
  }[];
  readonly permissions: readonly {
    readonly user: string;
    readonly vhost: string;
    readonly configure: string;
    readonly write: string;
    readonly read: string;
  }[];
  readonly policies: readonly {
    readonly vhost: string;
    readonly name: string;
    readonly pattern: string;
    readonly "apply-to": "queues";
    readonly priority: number;
    readonly definition: Readonly<Record<string, number | string>>;
  }[];
  readonly exchanges: readonly {
    readonly name: string;
    readonly vhost: string;
    readonly type: string;
    readonly durable: true;
    readonly auto_delete: false;
    readonly internal: false;
    readonly arguments: Readonly<Record<string, never>>;
  }[];
  readonly queues: readonly {
    readonly name: string;
    readonly vhost: string;
    readonly durable: true;
    readonly auto_delete: false;
    readonly arguments: Readonly<Record<string, string | number>>;
  }[];
  readonly bindings: readonly {
    readonly source: string;
    readonly vhost: string;
    readonly destination: string;
    readonly destination_type: "queue";
    readonly routing_key: string;
    readonly arguments: Readonly<Record<string, never>>;
  }[];
}

/**
 * RabbitMQ's salted SHA-256 of a password.
 *
 * @param salt 4 bytes; random if left out
 */
export function hashPassword(password: string, salt: Buffer = randomBytes(4)): string {
  const digest = createHash("sha256").update(salt).update(password, "utf8").digest();
  return Buffer.concat([salt, digest]).toString("base64");
}

/**
 * The definitions of a topology, its users and the one policy `waybill.limits`. Safe for 3.10,
 * which refuses newer policy keys and `apply-to` values.
 */
export function definitionsOf(topology: Topology, options: DefinitionsOptions = {}): Definitions {
  const vhost = options.vhost ?? "/";
  const prefix = topology.prefix.replaceAll(".", "\\.");
  const users = options.users ?? [];
  return {
    vhosts: [{ name: vhost }],
    users: users.map((user) => ({
      name: user.name,
      password_hash: user.passwordHash,
      hashing_algorithm: "rabbit_password_hashing_sha256",
      tags: user.tags ?? [],
    })),
    permissions: users.map((user) => ({
      user: user.name,
      vhost,
      ...(user.permissions ?? { configure: ".*", write: ".*", read: ".*" }),
    })),
    policies: [
      {
        vhost,
        name: names(topology.prefix).limitsPolicy,
        // Dead-letter queues have no limit: a dead letter that finds no room is lost history.
        pattern: `^${prefix}\\.(?!.*\\.dlq$)`,
        "apply-to": "queues",
        priority: 10,
        definition: { "max-length-bytes": options.maxLengthBytes ?? 1_073_741_824 },
      },
    ],
    exchanges: topology.exchanges.map(({ name, type }) => ({
      name,
      vhost,
      type,
      durable: true,
      auto_delete: false,
      internal: false,
      arguments: {},
    })),
    queues: topology.queues.map((queue) => ({
      name: queue.name,
      vhost,
      durable: true,
      auto_delete: false,
      arguments: queue.arguments,
    })),
    bindings: topology.bindings.map((binding) => ({
      source: binding.exchange,
      vhost,
      destination: binding.queue,
      destination_type: "queue",
      routing_key: binding.routingKey,
      arguments: {},
    })),
  };
}
