import { fileURLToPath } from "node:url";
import { startProcess, type TestProcess } from "../support/index.ts";

const main = new URL("../../packages/cli/src/main.ts", import.meta.url);

/** How a command ended. */
export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The one JSON object of `--json`. */
  readonly json: () => Record<string, unknown>;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** Starts the command and does not wait. */
export function startCli(args: readonly string[], env: Environment = {}): Promise<TestProcess> {
  return startProcess(fileURLToPath(main), args, env);
}

/**
 * Runs the command to its end.
 *
 * @throws Error if it has not ended within a minute: a command never hangs
 */
export async function runCli(args: readonly string[], env: Environment = {}): Promise<CliResult> {
  await using child = await startCli(args, env);
  const deadline = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => deadline.reject(new Error(`waybill ${args.join(" ")} hangs:\n${child.lines.join("\n")}`)),
    60_000,
  );
  try {
    const { code } = await Promise.race([child.exited, deadline.promise]);
    const stdout = child.stdout.join("\n");
    return {
      code,
      stdout,
      stderr: child.stderr.join("\n"),
      json: () => JSON.parse(stdout) as Record<string, unknown>,
    };
  } finally {
    clearTimeout(timer);
  }
}
