/** Reads the broker's own words about a declaration that differs from what exists. */

/** One difference between an entity at the broker and the wanted one. */
export interface TopologyDifference {
  /** Argument or property: "x-queue-type", "durable", "type". */
  readonly argument: string;
  /** Value at the broker; "none" if it is not set; undefined if the broker's text was cut. */
  readonly found: string | undefined;
  /** Value Waybill declares; "none" if it declares none. */
  readonly wanted: string | undefined;
}

function value(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const match = /^(?:the value )?'(.*?)'(?: of type '[^']*')?$/.exec(text.trim());
  if (match !== null) return match[1];
  return text.trim() === "none" ? "none" : undefined;
}

/**
 * The difference in a `406 PRECONDITION_FAILED - inequivalent arg …` text, or undefined for any
 * other text. A reply text ends after 255 bytes, so the found value may be missing.
 */
export function parseMismatch(text: string): TopologyDifference | undefined {
  const head = /inequivalent arg '([^']+)' for (?:queue|exchange) '[^']*' in vhost '[^']*'/.exec(
    text,
  );
  const argument = head?.[1];
  if (head === null || argument === undefined) return undefined;
  const rest = text.slice(head.index + head[0].length).replace(/"\s*$/, "");
  const sides = /^: received (.*?) but current is (.*)$/s.exec(rest);
  return {
    argument,
    wanted: value(sides?.[1]),
    found: value(sides?.[2]),
  };
}

const shown = (text: string | undefined): string =>
  text === undefined ? "another value" : text === "none" ? "not set" : `"${text}"`;

/** What differs and how to migrate, in words. Nothing is ever deleted by Waybill. */
export function mismatchMessage(
  kind: "exchange" | "queue",
  name: string,
  differences: readonly TopologyDifference[],
): string {
  const facts = differences
    .map(
      ({ argument, found, wanted }) => `${argument} is ${shown(found)}, wanted is ${shown(wanted)}`,
    )
    .join("; ");
  const recipe =
    kind === "queue"
      ? `A queue cannot be changed in place. Stop its consumers, move its messages to a queue of ` +
        `another name ("Move messages" in the management UI), delete "${name}", run ` +
        `"waybill topology apply", move the messages back; or give the queue a new name, bind it, ` +
        `unbind "${name}" and let it drain.`
      : `An exchange cannot be changed in place. Delete "${name}" while nothing publishes, then ` +
        `run "waybill topology apply".`;
  return `Cannot use ${kind} "${name}" as it is: ${facts}. ${recipe}`;
}
