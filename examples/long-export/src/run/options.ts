import { parseArgs } from "node:util";
import { whole } from "../../../../scripts/stage/whole.ts";

/** What the command line of the example says. */
export interface ExampleOptions {
  /** Sales to export. */
  readonly rows: number;
  /** Workers to kill on the way. */
  readonly kills: number;
}

const usage = `Usage: npm run example:long-export -- [options]

  --rows <n>   sales to export, 10000 to 10000000 (default 100000)
  --kills <n>  workers to kill with SIGKILL on the way, 0 to 15 (default 3)
  --help       this text
`;

/**
 * Reads the command line.
 *
 * @returns undefined where it asks for the usage, which is then printed
 * @throws Error that says what is wrong with it
 */
export function readOptions(args: readonly string[]): ExampleOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rows: { type: "string", default: "100000" },
      kills: { type: "string", default: "3" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return undefined;
  }
  return {
    rows: whole("rows", values.rows, 10_000, 10_000_000),
    kills: whole("kills", values.kills, 0, 15),
  };
}
