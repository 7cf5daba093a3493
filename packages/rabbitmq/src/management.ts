/**
 * The parts of RabbitMQ's management HTTP API that the doctor, the topology check and the tests
 * need. Nothing in the path of a job depends on it.
 */

import { BrokerUnavailableError, cleanText } from "@waybill/core";

/** A queue, as the API shows it. Counts are missing until the broker's statistics catch up. */
export interface ManagementQueue {
  readonly name: string;
  readonly type?: string;
  readonly durable: boolean;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly policy?: string | null;
  /** What policy and operator policy set together; missing until the statistics catch up. */
  readonly effective_policy_definition?: Readonly<Record<string, unknown>> | null;
  readonly messages?: number;
  readonly messages_ready?: number;
  readonly messages_unacknowledged?: number;
  readonly consumers?: number;
}

/** An exchange, as the API shows it. */
export interface ManagementExchange {
  readonly name: string;
  readonly type: string;
  readonly durable: boolean;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** A binding, as the API shows it. */
export interface ManagementBinding {
  readonly source: string;
  readonly destination: string;
  readonly destination_type: string;
  readonly routing_key: string;
}

/** A connection, as the API shows it. */
export interface ManagementConnection {
  readonly name: string;
  readonly user_provided_name?: string;
  readonly vhost?: string;
}

/** Permissions of a user in a virtual host: regular expressions over names. */
export interface Permissions {
  readonly configure: string;
  readonly write: string;
  readonly read: string;
}

/** A policy to set. */
export interface Policy {
  readonly pattern: string;
  readonly definition: Readonly<Record<string, unknown>>;
  readonly "apply-to": string;
  readonly priority: number;
}

/** A message as the UI's "Publish message" form sends it. */
export interface ManualMessage {
  readonly exchange: string;
  readonly routingKey: string;
  readonly payload: string;
  readonly payloadEncoding?: "string" | "base64" | undefined;
  readonly properties?: Readonly<Record<string, unknown>> | undefined;
}

/** Options of {@link createManagementClient}. */
export interface ManagementClientOptions {
  /** For example http://user:password@host:15672; without credentials, guest. */
  readonly url: string;
  /** Limit of one request, in milliseconds. @default 10000 */
  readonly timeoutMs?: number | undefined;
}

/** See {@link createManagementClient}. Every call throws BrokerUnavailableError if it fails. */
export interface ManagementClient {
  /**
   * Any request under `/api`.
   *
   * @param path percent-encoded, from after `/api/` on
   * @returns the parsed answer; undefined for 404 and for an empty one
   */
  request(method: string, path: string, body?: unknown): Promise<unknown>;
  putVhost(vhost: string): Promise<void>;
  deleteVhost(vhost: string): Promise<void>;
  putUser(user: string, password: string, tags?: string): Promise<void>;
  deleteUser(user: string): Promise<void>;
  putPermissions(vhost: string, user: string, permissions: Permissions): Promise<void>;
  queue(vhost: string, queue: string): Promise<ManagementQueue | undefined>;
  queues(vhost: string): Promise<readonly ManagementQueue[]>;
  deleteQueue(vhost: string, queue: string): Promise<void>;
  exchanges(vhost: string): Promise<readonly ManagementExchange[]>;
  bindings(vhost: string): Promise<readonly ManagementBinding[]>;
  putPolicy(vhost: string, name: string, policy: Policy): Promise<void>;
  /** Imports definitions (see definitionsOf) over what exists. */
  importDefinitions(definitions: object): Promise<void>;
  connections(): Promise<readonly ManagementConnection[]>;
  /** Closes a connection as the UI's "Force close" does. */
  closeConnection(name: string): Promise<void>;
  /** True while a memory or disk alarm is on. */
  hasAlarm(): Promise<boolean>;
  /** Publishes by hand; false if no queue took it. */
  publish(vhost: string, message: ManualMessage): Promise<boolean>;
  /** Moves all messages as the UI's "Move messages" does; needs the shovel plugin. Does not wait. */
  moveMessages(vhost: string, from: string, to: string): Promise<void>;
}

const part = encodeURIComponent;

class HttpManagementClient implements ManagementClient {
  readonly #base: string;
  readonly #display: string;
  readonly #authorization: string;
  readonly #timeoutMs: number;

  constructor(options: ManagementClientOptions) {
    const url = new URL(options.url);
    const user = decodeURIComponent(url.username) || "guest";
    const password = decodeURIComponent(url.password) || "guest";
    this.#authorization = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
    this.#display = url.origin;
    this.#base = `${url.origin}${url.pathname.replace(/\/+$/, "")}/api/`;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
  }

  #error(fact: string, advice: string, needsOperator: boolean, cause?: unknown): Error {
    return new BrokerUnavailableError(
      `Cannot use RabbitMQ's management API at ${this.#display}: ${fact}. ${advice}`,
      needsOperator,
      { cause },
    );
  }

  async #fetch(method: string, path: string, body: unknown): Promise<Response> {
    try {
      return await fetch(this.#base + path, {
        method,
        headers: { authorization: this.#authorization, "content-type": "application/json" },
        body: body === undefined ? null : JSON.stringify(body),
        signal: AbortSignal.timeout(this.#timeoutMs),
      });
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      const fact = cleanText(cause instanceof Error ? cause.message : String(cause), 300);
      const advice = "Check the address, and that the management plugin is on.";
      throw this.#error(fact, advice, false, error);
    }
  }

  async request(method: string, path: string, body?: unknown): Promise<unknown> {
    const response = await this.#fetch(method, path, body);
    const text = await response.text();
    if (response.status === 404) return undefined;
    if (!response.ok) {
      const fact = `${method} /api/${path} was answered ${response.status}: ${cleanText(text, 300)}`;
      const login = response.status === 401 || response.status === 403;
      const advice = login
        ? "Correct the user and password, or give the user the tag that this needs."
        : "Correct the request's cause.";
      throw this.#error(fact, advice, login);
    }
    if (text === "") return undefined;
    try {
      return JSON.parse(text) as unknown;
    } catch (error) {
      throw this.#error("the answer is not JSON", "Check the address.", true, error);
    }
  }

  async #list<T>(path: string): Promise<readonly T[]> {
    const list = await this.request("GET", path);
    return Array.isArray(list) ? (list as readonly T[]) : [];
  }

  async putVhost(vhost: string): Promise<void> {
    await this.request("PUT", `vhosts/${part(vhost)}`, {});
  }

  async deleteVhost(vhost: string): Promise<void> {
    await this.request("DELETE", `vhosts/${part(vhost)}`);
  }

  async putUser(user: string, password: string, tags = ""): Promise<void> {
    await this.request("PUT", `users/${part(user)}`, { password, tags });
  }

  async deleteUser(user: string): Promise<void> {
    await this.request("DELETE", `users/${part(user)}`);
  }

  async putPermissions(vhost: string, user: string, permissions: Permissions): Promise<void> {
    await this.request("PUT", `permissions/${part(vhost)}/${part(user)}`, permissions);
  }

  async queue(vhost: string, queue: string): Promise<ManagementQueue | undefined> {
    return (await this.request("GET", `queues/${part(vhost)}/${part(queue)}`)) as
      | ManagementQueue
      | undefined;
  }

  queues(vhost: string): Promise<readonly ManagementQueue[]> {
    return this.#list(`queues/${part(vhost)}`);
  }

  async deleteQueue(vhost: string, queue: string): Promise<void> {
    await this.request("DELETE", `queues/${part(vhost)}/${part(queue)}`);
  }

  exchanges(vhost: string): Promise<readonly ManagementExchange[]> {
    return this.#list(`exchanges/${part(vhost)}`);
  }

  bindings(vhost: string): Promise<readonly ManagementBinding[]> {
    return this.#list(`bindings/${part(vhost)}`);
  }

  async putPolicy(vhost: string, name: string, policy: Policy): Promise<void> {
    await this.request("PUT", `policies/${part(vhost)}/${part(name)}`, policy);
  }

  async importDefinitions(definitions: object): Promise<void> {
    await this.request("POST", "definitions", definitions);
  }

  connections(): Promise<readonly ManagementConnection[]> {
    return this.#list("connections");
  }

  async closeConnection(name: string): Promise<void> {
    await this.request("DELETE", `connections/${part(name)}`);
  }

  async hasAlarm(): Promise<boolean> {
    // 503 is an answer here, not a failure.
    const response = await this.#fetch("GET", "health/checks/alarms", undefined);
    await response.body?.cancel();
    if (response.status === 503) return true;
    if (response.ok) return false;
    throw this.#error(`the alarm check was answered ${response.status}`, "Check the user.", true);
  }

  async publish(vhost: string, message: ManualMessage): Promise<boolean> {
    // The UI's name of the default exchange.
    const exchange = message.exchange === "" ? "amq.default" : message.exchange;
    const answer = await this.request(
      "POST",
      `exchanges/${part(vhost)}/${part(exchange)}/publish`,
      {
        routing_key: message.routingKey,
        payload: message.payload,
        payload_encoding: message.payloadEncoding ?? "string",
        properties: message.properties ?? {},
      },
    );
    return typeof answer === "object" && answer !== null && "routed" in answer
      ? answer.routed === true
      : false;
  }

  async moveMessages(vhost: string, from: string, to: string): Promise<void> {
    // An address without host means this node, inside the broker; the vhost is its path.
    const uri = `amqp:///${part(vhost)}`;
    await this.request("PUT", `parameters/shovel/${part(vhost)}/${part(`Move from ${from}`)}`, {
      value: {
        "src-uri": uri,
        "src-protocol": "amqp091",
        "src-queue": from,
        "src-prefetch-count": 1_000,
        "src-delete-after": "queue-length",
        "dest-uri": uri,
        "dest-protocol": "amqp091",
        "dest-queue": to,
        "dest-add-forward-headers": false,
        "ack-mode": "on-confirm",
      },
    });
  }
}

/** Creates a client. Nothing is requested yet. */
export function createManagementClient(options: ManagementClientOptions): ManagementClient {
  return new HttpManagementClient(options);
}
