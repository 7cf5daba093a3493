import { checkTypeName } from "./names.ts";
import type { StandardSchema } from "./standard-schema.ts";

/** A kind of event: published once, received by any number of subscriptions. */
export interface EventDefinition<
  Name extends string = string,
  Payload extends StandardSchema = StandardSchema,
> {
  readonly name: Name;
  readonly payload: Payload;
}

/**
 * Defines an event. Its name is the routing key on the topic exchange `waybill.events`.
 *
 * @throws NameError for a name outside the rules of names
 */
export function defineEvent<const Name extends string, Payload extends StandardSchema>(definition: {
  readonly name: Name;
  readonly payload: Payload;
}): EventDefinition<Name, Payload> {
  checkTypeName(definition.name);
  return Object.freeze({ name: definition.name, payload: definition.payload });
}
