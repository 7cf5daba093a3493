import { parseArgs } from "node:util";
import { measurements } from "./measurements.ts";

/** What the command line says. */
export interface FlowOptions {
  /** Names of the measurements to do. */
  readonly only: readonly string[];
  /** Fewer jobs and less time; the figures are rougher. */
  readonly quick: boolean;
}

const names = measurements.map(({ name }) => name);

const usage = `Usage: npm run bench:flow -- [options]

  --only <name>  one of ${names.join(", ")}; may be given several times
  --quick        fewer jobs and less time; the figures are rougher
  --help         this text
`;

/**
 * Reads the command line.
 *
 * @returns undefined where it asks for the usage, which is then printed
 * @throws Error that says what is wrong with it
 */
export function readOptions(args: readonly string[]): FlowOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string", multiple: true, default: [] },
      quick: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return undefined;
  }
  const unknown = values.only.find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw new Error(`--only is one of ${names.join(", ")}, not "${unknown}"`);
  return { only: values.only.length === 0 ? names : values.only, quick: values.quick };
}
