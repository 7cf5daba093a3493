import { checkQueueName } from "./names.ts";
import { parseOptions } from "./options.ts";
import { type QueueSettings, queueSettings, settingsMisfits } from "./queue-settings.ts";

/** A queue with what was declared of it. Made by {@link defineQueue}. */
export interface QueueDefinition<Name extends string = string> {
  readonly name: Name;
  readonly settings: QueueSettings;
}

/**
 * Defines a queue's limits, rates, priority, order and fairness. Workers that are given the definition
 * write it into the database at their start; an operator's settings win over it.
 *
 * With anything but `concurrency` the queue is governed: its jobs wait in the database, and only as many
 * are at the broker as the workers can start.
 *
 * @throws NameError for a name outside the rules of queue names
 * @throws ConfigError that names every setting that is unknown, out of bounds or contradicts another
 *
 * @example
 * const emails = defineQueue({
 *   name: "emails",
 *   concurrency: 50,
 *   rate: { limit: 200 },
 *   keys: { concurrency: 2, tiers: { gold: { concurrency: 10, weight: 5 } } },
 * });
 */
export function defineQueue<const Name extends string>(
  definition: { readonly name: Name } & QueueSettings,
): QueueDefinition<Name> {
  const { name, ...settings } = definition;
  checkQueueName(name);
  return Object.freeze({
    name,
    settings: parseOptions(`defineQueue("${name}")`, queueSettings, settings, settingsMisfits),
  });
}
