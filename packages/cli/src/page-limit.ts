import { InvalidArgumentError } from "@commander-js/extra-typings";

/** Reads the value of `--limit`: a whole number from 1 to `max`. */
export function parseLimit(max: number): (text: string) => number {
  return (text) => {
    const limit = Number(text);
    if (Number.isInteger(limit) && limit >= 1 && limit <= max) return limit;
    throw new InvalidArgumentError(`expected a whole number from 1 to ${max}`);
  };
}
