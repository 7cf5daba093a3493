import { parseArgs } from "node:util";
import { whole } from "../../../../scripts/stage/whole.ts";

/** What the command line of the demo says. */
export interface FlowOptions {
  /** Jobs to run in all. */
  readonly jobs: number;
  /** Decides how long statements take, and which postings fail at first. */
  readonly seed: number;
  /** Print one JSON object on stdout instead of the books. */
  readonly json: boolean;
}

const usage = `Usage: npm run demo:flow -- [options]

  --jobs <n>  jobs to run, 200 to 20000 (default 1200)
  --seed <n>  another run of luck: how long statements take, which postings fail at first (default 1)
  --json      print one JSON object on stdout; progress goes to stderr
  --help      this text
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
      jobs: { type: "string", default: "1200" },
      seed: { type: "string", default: "1" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return undefined;
  }
  return {
    jobs: whole("jobs", values.jobs, 200, 20_000),
    seed: whole("seed", values.seed, 0, 2 ** 31),
    json: values.json,
  };
}
