import { spawn } from "node:child_process";

/** What a program printed. */
export interface Output {
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Debian packages of the programs that are run here. */
const packageOf: Readonly<Record<string, string>> = {
  "amqp-publish": "amqp-tools",
  "amqp-get": "amqp-tools",
  "/usr/bin/python3": "python3-pika",
};

const remedy = (command: string): string =>
  `Run: sudo apt-get install ${packageOf[command] ?? command}`;

/**
 * Runs a program to its end.
 *
 * @throws Error with the command that installs it where it is missing, or with what it printed where it failed
 */
export async function runProgram(
  command: string,
  args: readonly string[],
  stdin: string | Buffer = "",
): Promise<Output> {
  const child = spawn(command, args);
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
  const { promise, resolve, reject } = Promise.withResolvers<number | null>();
  child.once("error", (cause) =>
    reject(new Error(`Cannot run ${command}: it is not installed. ${remedy(command)}`, { cause })),
  );
  child.once("close", resolve);
  // A program that reads nothing may be gone by now.
  child.stdin.on("error", () => undefined);
  child.stdin.end(stdin);
  const code = await promise;
  const output = { stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString("utf8") };
  if (code === 0) return output;
  const missing = output.stderr.includes("No module named") ? ` ${remedy(command)}` : "";
  throw new Error(`Cannot run ${command}: it ended with ${code}: ${output.stderr}${missing}`);
}

/** Runs a Python program with pika; resolves to what it printed, parsed as JSON. */
export async function runPika(program: string, ...args: readonly string[]): Promise<unknown> {
  // The system's own interpreter: Debian's packages are not in any other's path.
  const { stdout } = await runProgram("/usr/bin/python3", ["-c", program, ...args]);
  const text = stdout.toString("utf8");
  return text.trim() === "" ? undefined : (JSON.parse(text) as unknown);
}
