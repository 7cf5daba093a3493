/**
 * What went wrong with the link to the broker, in one sentence that says what to do. amqplib's
 * handshake errors carry no code, so the text decides (checked against 2.3.1).
 */

import { BrokerUnavailableError, cleanText } from "@waybill/core";
import type { Endpoint } from "./endpoint.ts";

interface Diagnosis {
  readonly fact: string;
  readonly advice: string;
  readonly needsOperator: boolean;
}

const portHint =
  "Check the port: AMQP is 5672 (5671 with TLS), 15672 is the management page, 5432 is PostgreSQL.";

/** The `code` of an error, where it has one: a Node error name or an AMQP reply code. */
export function codeOf(error: unknown): string | number | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" || typeof error.code === "number" ? error.code : undefined;
}

/** The message of anything thrown, cleaned and bounded. */
export function textOf(error: unknown): string {
  // An AggregateError of several tried addresses has an empty message of its own.
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : error;
  return cleanText(first instanceof Error ? first.message : String(first), 500);
}

function byCode(code: string, endpoint: Endpoint): Diagnosis | undefined {
  switch (code) {
    case "ECONNREFUSED":
      return {
        fact: `nothing listens on port ${endpoint.port} of ${endpoint.host} (connection refused)`,
        advice: "Start RabbitMQ there, or correct the URL.",
        needsOperator: false,
      };
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return {
        fact: `the host name ${endpoint.host} does not resolve (${code})`,
        advice: "Correct the host in the URL, or wait for its DNS entry.",
        needsOperator: false,
      };
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "ABORT_ERR":
      return {
        fact: `no answer from ${endpoint.host}:${endpoint.port} in time (${code === "ABORT_ERR" ? "ETIMEDOUT" : code})`,
        advice: "Check host, port and firewall, and whether the broker is alive.",
        needsOperator: false,
      };
    case "ERR_SSL_WRONG_VERSION_NUMBER":
      return {
        fact: "the port does not speak TLS",
        advice: "Use amqp:// or the TLS port (5671).",
        needsOperator: true,
      };
    default:
      return /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ALTNAME|^ERR_TLS|^ERR_SSL/.test(code)
        ? {
            fact: `the broker's certificate or the TLS handshake was refused (${code})`,
            advice: "Correct the certificate, or name its authority in NODE_EXTRA_CA_CERTS.",
            needsOperator: true,
          }
        : undefined;
  }
}

function byText(text: string, endpoint: Endpoint): Diagnosis | undefined {
  if (/ACCESS.REFUSED/.test(text)) {
    const local =
      endpoint.username === "guest"
        ? " The user guest may log in from the broker's own host only."
        : "";
    return {
      fact: `the broker refuses the login of user "${cleanText(endpoint.username, 80)}"`,
      advice: `Correct user and password in the URL.${local}`,
      needsOperator: true,
    };
  }
  if (/Expected ConnectionOpenOk|NOT.ALLOWED/.test(text)) {
    const vhost = cleanText(endpoint.vhost, 80);
    const user = cleanText(endpoint.username, 80);
    return {
      fact: `the virtual host "${vhost}" does not exist, or user "${user}" may not use it`,
      advice: `Run "rabbitmqctl add_vhost ${vhost}" and "rabbitmqctl set_permissions -p ${vhost} ${user} …", or correct the URL.`,
      needsOperator: true,
    };
  }
  if (/exceeds maxFrameSize|Unexpected end of frame|Invalid frame|during handshake/i.test(text)) {
    return {
      fact: "something answers there, but it does not speak AMQP 0-9-1",
      advice: portHint,
      needsOperator: true,
    };
  }
  if (/Socket closed abruptly/.test(text)) {
    return {
      fact: "the connection was closed during the handshake, so the broker is starting or it is not RabbitMQ",
      advice: portHint,
      needsOperator: false,
    };
  }
  if (/ETIMEDOUT/.test(text)) return byCode("ETIMEDOUT", endpoint);
  if (/SASL mechanism/.test(text)) {
    return {
      fact: text,
      advice: "Enable PLAIN in the broker's auth_mechanisms.",
      needsOperator: true,
    };
  }
  return undefined;
}

/** Explains why a connection attempt failed. */
export function connectFailure(error: unknown, endpoint: Endpoint): BrokerUnavailableError {
  const code = codeOf(error instanceof AggregateError ? error.errors[0] : error);
  const text = textOf(error);
  const diagnosis = (typeof code === "string" ? byCode(code, endpoint) : undefined) ??
    byText(text, endpoint) ?? {
      fact: text === "" ? "the connection failed" : text,
      advice: "It is tried again.",
      needsOperator: false,
    };
  return new BrokerUnavailableError(
    `Cannot reach RabbitMQ at ${endpoint.display}: ${diagnosis.fact}. ${diagnosis.advice}`,
    diagnosis.needsOperator,
    { cause: error },
  );
}

/** Explains why an open connection ended. */
export function connectionLoss(error: unknown, endpoint: Endpoint): BrokerUnavailableError {
  const fact =
    error === undefined
      ? "the connection was closed"
      : /CONNECTION.FORCED/.test(textOf(error))
        ? "the broker shut down, or an operator closed the connection"
        : `the connection was lost (${textOf(error)})`;
  return new BrokerUnavailableError(
    `Cannot reach RabbitMQ at ${endpoint.display}: ${fact}. It is opened again without your help.`,
    false,
    { cause: error },
  );
}
