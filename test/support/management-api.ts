/** RabbitMQ's management HTTP API, with the credentials of an AMQP URL. */
export interface ManagementApi {
  /** Without credentials. */
  readonly url: string;
  /**
   * Sends a request and resolves to the parsed answer (undefined where there is no body).
   * @param path percent-encoded, from `/api` on
   * @throws Error with status and body unless the answer is a 2xx
   */
  request(method: string, path: string, body?: unknown): Promise<unknown>;
}

/** The API at `managementUrl`; user and password are those of `broker`. */
export function managementApi(managementUrl: string, broker: URL | string): ManagementApi {
  const { username, password } = new URL(broker);
  const user = decodeURIComponent(username || "guest");
  const authorization = `Basic ${btoa(`${user}:${decodeURIComponent(password || "guest")}`)}`;
  return {
    url: managementUrl,
    async request(method, path, body) {
      const response = await fetch(`${managementUrl}${path}`, {
        method,
        headers: { authorization, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) {
        throw new Error(`Cannot ${method} ${path}: ${response.status} ${text}`);
      }
      return text === "" ? undefined : (JSON.parse(text) as unknown);
    },
  };
}
