import type { Stage } from "./stage.ts";

/** A figure, with what it has to be. */
export interface Figure {
  readonly name: string;
  readonly value: number | null;
  readonly unit: string;
  /** What is asked of it, such as ">= 0.95"; undefined: it is only told. */
  readonly bar?: string | undefined;
  readonly isMet?: boolean | undefined;
  /** True where the command fails if it is not met: promises, not speed. */
  readonly isHard?: boolean | undefined;
}

/** What a measurement came to. */
export interface Outcome {
  readonly figures: readonly Figure[];
}

/** One of the measurements. */
export interface Measurement {
  readonly name: string;
  readonly title: string;
  readonly measure: (stage: Stage) => Promise<Outcome>;
}

/** A figure that is only told. */
export function told(name: string, value: number | undefined, unit: string): Figure {
  return { name, value: value ?? null, unit };
}

/** A figure of speed that has to be so much at least. */
export function atLeast(name: string, value: number, bar: number, unit: string): Figure {
  return { name, value, unit, bar: `>= ${bar}`, isMet: value >= bar };
}

/** A figure of speed that may be so much at most. */
export function atMost(name: string, value: number, bar: number, unit: string): Figure {
  return { name, value, unit, bar: `<= ${bar}`, isMet: value <= bar };
}

/** A promise: the command fails where it is broken. */
export function never(name: string, value: number): Figure {
  return { name, value, unit: "", bar: "0", isMet: value === 0, isHard: true };
}

/** A promise with a bound. */
export function bounded(name: string, value: number, bar: number, unit: string): Figure {
  return { ...atMost(name, value, bar, unit), isHard: true };
}

const digits = (value: number): string => {
  if (Number.isInteger(value) || Math.abs(value) >= 1_000) return Math.round(value).toString();
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(3);
};

/** A figure in a line. */
export function figureText({ name, value, unit, bar, isMet }: Figure): string {
  const number = value === null ? "unknown" : `${digits(value)}${unit}`;
  const verdict = bar === undefined ? "" : ` (${bar}${isMet === true ? "" : ", MISSED"})`;
  return `${name} ${number}${verdict}`;
}
