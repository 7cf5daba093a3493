import { checkQueueName, ConfigError } from "@waybill/core";
import { suggestionFor } from "./suggestion.ts";

/**
 * Checks that a queue has been heard of, so that a slip of the pen pauses no queue that is not there.
 *
 * @param fresh true where a new one is meant
 * @throws ConfigError that suggests the name that was probably meant, NameError for what is no name
 */
export async function checkKnown(
  name: string,
  fresh: boolean,
  knownNames: () => Promise<readonly string[]>,
): Promise<void> {
  checkQueueName(name);
  if (fresh) return;
  const known = await knownNames();
  if (known.includes(name)) return;
  const meant = suggestionFor(name, known);
  const listed = known.length === 0 ? "no queue is known" : `known are ${known.join(", ")}`;
  throw new ConfigError("the waybill command", [
    {
      path: name,
      message:
        `is no queue that was ever heard of${meant === undefined ? "" : `; did you mean ${meant}?`}` +
        ` (${listed}). For one that is yet to come, add --new`,
    },
  ]);
}
