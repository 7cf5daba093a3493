/**
 * Where a command writes: data to stdout, everything else to stderr. One place decides about JSON,
 * quiet and colour.
 */

import { styleText } from "node:util";
import { cleanText } from "@waybill/core";
import Table from "cli-table3";

/** Colours that the command uses, by meaning. */
const styles = {
  good: "green",
  bad: "red",
  warning: "yellow",
  heading: "bold",
  faint: "dim",
} as const;
/** One of the meanings that text can be painted with. */
export type Paint = keyof typeof styles;

/** What decides how a command writes. */
export interface OutputOptions {
  readonly json: boolean;
  readonly quiet: boolean;
  readonly color: boolean;
}

/** Writes what a command has to say. */
export interface Output {
  readonly json: boolean;
  /** One JSON object on stdout; the whole answer of a command. */
  object(value: object): void;
  /** A line of data on stdout. */
  line(text?: string): void;
  /** Aligned columns on stdout. */
  table(head: readonly string[], rows: readonly (readonly string[])[]): void;
  /** A message for people on stderr; nothing with --quiet. */
  note(text: string): void;
  /** A message on stderr that --quiet does not silence. */
  warn(text: string): void;
  /** The text in the colour of its meaning, where stdout shows colours. */
  paint(paint: Paint, text: string): string;
}

/** Values longer than this are cut in tables and messages. */
const shownLength = 4_096;

/** Text of jobs and servers goes to a terminal: no escape sequences, no credentials in URLs. */
export function shown(text: string): string {
  return text
    .split("\n")
    .map((line) => cleanText(line, shownLength))
    .join("\n");
}

/** Columns without borders, two spaces apart: readable, and fit for awk. */
const plain = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "  ",
};

function write(stream: NodeJS.WriteStream, text: string): void {
  stream.write(`${text}\n`);
}

/** An output on this process's stdout and stderr. */
export function createOutput(options: OutputOptions): Output {
  const paint = (meaning: Paint, text: string): string =>
    options.color ? styleText(styles[meaning], text, { stream: process.stdout }) : text;
  return {
    json: options.json,
    paint,
    object: (value) => write(process.stdout, JSON.stringify(value)),
    line: (text = "") => write(process.stdout, text),
    table: (head, rows) => {
      const table = new Table({
        head: head.map((text) => paint("heading", text)),
        chars: plain,
        style: { head: [], border: [], "padding-left": 0, "padding-right": 0 },
      });
      for (const row of rows) table.push([...row]);
      const text = table
        .toString()
        .split("\n")
        .map((line) => line.trimEnd())
        .join("\n");
      write(process.stdout, text);
    },
    note: (text) => {
      if (!options.quiet) write(process.stderr, text);
    },
    warn: (text) => write(process.stderr, text),
  };
}
