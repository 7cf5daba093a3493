import { InvalidArgumentError } from "@commander-js/extra-typings";

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/**
 * Milliseconds of a text such as `500ms`, `30s`, `5m`, `2h` or `7d`; undefined for anything else.
 * A number without a unit is refused: nobody remembers whether it means seconds.
 */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text.trim());
  if (match === null) return undefined;
  return Number(match[1]) * unitMs[match[2] as keyof typeof unitMs];
}

/** Reads the value of a flag that is a time; `examples` are some, in the words of its error. */
export function parseTime(examples: string): (text: string) => number {
  return (text) => {
    const ms = parseDuration(text);
    if (ms !== undefined) return ms;
    throw new InvalidArgumentError(`expected a time with its unit, such as ${examples}`);
  };
}

/** A time span in words for people: `350 ms`, `12 s`, `5 min`, `3 h`, `2 d`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}
