import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { whole } from "../../scripts/stage/whole.ts";
import { minutesOf, type Mode } from "./plan.ts";

/** What the command line says: a run, or the tests of one fault. */
export type ChaosOptions =
  | { readonly mode: Mode; readonly minutes: number; readonly seed: number }
  | { readonly only: string };

const usage = `Usage: npm run chaos -- [options]

  --smoke         3 minutes, 5,500 jobs, 63 kills (what is done without options)
  --release       30 minutes, 100,000 jobs, 900 processes, 75 brokers and 100 databases killed, 200 cuts
  --long <hours>  as dense as --release, 1 to 168 hours
  --minutes <n>   time under load, 1 to 10080; jobs and faults in proportion
  --seed <n>      the schedule of an earlier run, 0 to 4294967295
  --only <fault>  only the tests of a fault of the catalogue, such as C7
  --help          this text
`;

/**
 * Reads the command line.
 *
 * @returns undefined where it asks for the usage, which is then printed
 * @throws Error that says what is wrong with it
 */
export function readOptions(args: readonly string[]): ChaosOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      smoke: { type: "boolean", default: false },
      release: { type: "boolean", default: false },
      long: { type: "string" },
      minutes: { type: "string" },
      seed: { type: "string" },
      only: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return undefined;
  }
  if (values.only !== undefined) return { only: faultId(values.only) };
  const modes = [values.smoke, values.release, values.long !== undefined];
  if (modes.filter(Boolean).length > 1)
    throw new Error("give one of --smoke, --release and --long");
  if (values.long !== undefined && values.minutes !== undefined)
    throw new Error("give the time by --long or by --minutes, not by both");
  const mode = values.release ? "release" : values.long !== undefined ? "long" : "smoke";
  const minutes =
    values.long !== undefined
      ? whole("long", values.long, 1, 168) * 60
      : values.minutes !== undefined
        ? whole("minutes", values.minutes, 1, 10_080)
        : minutesOf(mode);
  const seed =
    values.seed === undefined ? randomInt(2 ** 32) : whole("seed", values.seed, 0, 2 ** 32 - 1);
  return { mode, minutes, seed };
}

function faultId(text: string): string {
  if (/^[A-Z]-?\d{1,2}$/.test(text)) return text;
  throw new Error(`--only is a fault of the catalogue, such as C7 or I-3, not "${text}"`);
}
