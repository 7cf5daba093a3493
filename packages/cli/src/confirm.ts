import { createInterface } from "node:readline/promises";
import { ConfigError } from "@waybill/core";

/**
 * Asks on the terminal before something that cannot be undone. Without a terminal nobody can
 * answer, so `--yes` is demanded there instead of guessed.
 *
 * @returns true to go on
 * @throws ConfigError without a terminal and without `--yes`
 */
export async function confirm(question: string, yes: boolean): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new ConfigError("the waybill command", [
      { path: "--yes", message: `is needed where no terminal can answer: ${question}` },
    ]);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
