import { parseArgs } from "node:util";
import { whole } from "../../../../scripts/stage/whole.ts";

/** What the command line of the demo says. */
export interface DemoOptions {
  /** Webhook events to have stored in the end. */
  readonly events: number;
  /** Decides which events roll back, come twice, and how the endpoint treats them. */
  readonly seed: number;
  /** Print one JSON object on stdout instead of the ledger. */
  readonly json: boolean;
  /** Leave everything running until Ctrl-C. */
  readonly keep: boolean;
}

const usage = `Usage: npm run demo -- [options]

  --events <n>  webhook events to store, 10 to 100000 (default 2000)
  --seed <n>    another run of luck: rollbacks, repeated deliveries, failures (default 1)
  --json        print one JSON object on stdout; progress goes to stderr
  --keep        leave everything running for a look around, until Ctrl-C
  --help        this text
`;

/**
 * Reads the command line.
 *
 * @returns undefined where it asks for the usage, which is then printed
 * @throws Error that says what is wrong with it
 */
export function readOptions(args: readonly string[]): DemoOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      events: { type: "string", default: "2000" },
      seed: { type: "string", default: "1" },
      json: { type: "boolean", default: false },
      keep: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return undefined;
  }
  return {
    events: whole("events", values.events, 10, 100_000),
    seed: whole("seed", values.seed, 0, 2 ** 31),
    json: values.json,
    keep: values.keep,
  };
}
