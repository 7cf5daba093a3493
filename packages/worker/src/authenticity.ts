/**
 * Decides whether a message is believed, before anything else is done with it: what is put aside in the
 * database comes back with the relay's signature.
 */

import { createHash } from "node:crypto";
import {
  cleanText,
  derivedId,
  type Envelope,
  type IncomingMessage,
  type KeyRing,
  signatureProblem,
  type SignatureScope,
  type UnreadableEnvelope,
} from "@waybill/core";
import type { ResolvedWorkerOptions } from "./options.ts";
import type { Registry } from "./registry.ts";

/** What the messages of one queue must bear. */
export interface AuthenticityRule {
  readonly keys: KeyRing;
  /** Messages without a signature are believed; those with one that does not fit never are. */
  readonly acceptsUnsigned: boolean;
  readonly scopes: readonly SignatureScope[];
}

/** The rule of a queue or subscription; undefined where the worker checks nothing. */
export function authenticityOf<Tx>(
  queue: string,
  { signing, unsigned, queues }: Pick<ResolvedWorkerOptions, "signing" | "unsigned" | "queues">,
  { subscriptions }: Pick<Registry<Tx>, "subscriptions">,
): AuthenticityRule | undefined {
  if (signing === undefined) return undefined;
  const isSubscription = subscriptions.some(({ subscription }) => subscription === queue);
  return {
    keys: signing,
    acceptsUnsigned: (queues[queue]?.unsigned ?? unsigned) === "accept",
    // An event is signed for all its subscriptions, and its retry for one of them.
    scopes: isSubscription ? [`queue:${queue}`, "event"] : [`queue:${queue}`],
  };
}

/** How long the reason may be, in UTF-16 units. */
const reasonLength = 500;

/**
 * The envelope, or the same as one that cannot be read. Nothing that such a message says about itself
 * is believed: under the id that it claims, it would end the job which that id belongs to.
 */
export function authentic(
  message: IncomingMessage,
  envelope: Envelope | UnreadableEnvelope,
  { keys, acceptsUnsigned, scopes }: AuthenticityRule,
): Envelope | UnreadableEnvelope {
  const problem = signatureProblem(keys, scopes, message);
  if (problem === undefined || (problem.kind === "unsigned" && acceptsUnsigned)) return envelope;
  const content = createHash("sha256").update(message.content).digest("hex");
  return {
    ...envelope,
    // The same for each copy, so that a message which is delivered again is dead-lettered once.
    id: derivedId(message.queue, "unauthentic", message.messageId ?? "", content),
    idSource: "derived",
    dispatch: 1,
    death: 0,
    priority: null,
    orderingKey: null,
    expiresAt: null,
    runAt: null,
    onTerminal: null,
    concurrencyKey: null,
    slot: null,
    failureClass: "unauthentic",
    reason: cleanText(problem.reason, reasonLength),
  };
}
