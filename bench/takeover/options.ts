import { parseArgs } from "node:util";
import { whole } from "../../scripts/stage/whole.ts";

/** What the command line says. */
export interface TakeoverOptions {
  /** Workers to kill; half of them run jobs whose deliveries they hold, half jobs without. */
  readonly kills: number;
  /** Workers to freeze. */
  readonly freezes: number;
  /** The workers' leaseMs. */
  readonly leaseMs: number;
}

const usage = `Usage: npm run bench:takeover -- [options]

  --kills <n>    workers to kill with SIGKILL, 2 to 1000 (default 50)
  --freezes <n>  workers to freeze with SIGSTOP, 1 to 200 (default 10)
  --lease <t>    lease of the workers, 1s to 5m (default 15s); a heartbeat is a third of it
  --help         this text
`;

const unitMs = { ms: 1, s: 1_000, m: 60_000 } as const;

function leaseOf(text: string): number {
  const [, number = "", unit = ""] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? [];
  const leaseMs = unit in unitMs ? Number(number) * unitMs[unit as keyof typeof unitMs] : 0;
  if (leaseMs >= 1_000 && leaseMs <= 300_000) return leaseMs;
  throw new Error(`--lease is a time from 1s to 5m with its unit, such as 15s, not "${text}"`);
}

/**
 * Reads the command line.
 *
 * @returns undefined where it asks for the usage, which is then printed
 * @throws Error that says what is wrong with it
 */
export function readOptions(args: readonly string[]): TakeoverOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      kills: { type: "string", default: "50" },
      freezes: { type: "string", default: "10" },
      lease: { type: "string", default: "15s" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return undefined;
  }
  return {
    kills: whole("kills", values.kills, 2, 1_000),
    freezes: whole("freezes", values.freezes, 1, 200),
    leaseMs: leaseOf(values.lease),
  };
}
