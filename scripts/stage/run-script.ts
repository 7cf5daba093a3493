/** The frame of a script that starts processes: signals, failures, exit code. */

import type { Screen } from "./screen.ts";

class Interrupted extends Error {}

/** What to tell about an error. One that came up while another was on its way follows that one. */
function messageOf(error: unknown): string {
  if (error instanceof SuppressedError) {
    return `${messageOf(error.suppressed)}\nThen, while clearing up: ${messageOf(error.error)}`;
  }
  return error instanceof Error ? error.message : String(error);
}

/**
 * Reads the command line; ends the process with 2 where it is wrong, and with 0 where it asks for
 * the usage only.
 *
 * @param read gives undefined where the usage was printed
 */
export function optionsOf<Options>(
  name: string,
  read: (args: readonly string[]) => Options | undefined,
): Options {
  let options: Options | undefined;
  try {
    options = read(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${name}: ${messageOf(error)}\n`);
    process.exit(2);
  }
  if (options === undefined) process.exit(0);
  return options;
}

/**
 * Runs a script and ends the process: 0 where it resolves to true, 1 where it does not, 130 after
 * Ctrl-C. What it has started must be ended when it settles.
 *
 * @param run gets a controller that is aborted by a signal, or by itself for what cannot go on
 */
export async function runScript(
  name: string,
  screen: Screen,
  run: (stop: AbortController) => Promise<boolean>,
): Promise<never> {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      // Whoever asks twice does not want to wait; the guard of the services clears up.
      if (stop.signal.aborted) process.exit(130);
      stop.abort(new Interrupted(signal));
    });
  }
  let code: number;
  try {
    code = (await run(stop)) ? 0 : 1;
  } catch (error) {
    screen.endProgress();
    const { reason } = stop.signal;
    if (reason instanceof Interrupted) {
      process.stderr.write(`${name}: interrupted; everything it started is ended\n`);
      code = 130;
    } else {
      // A process that ended by itself explains whatever failed after it.
      process.stderr.write(`${name}: failed: ${messageOf(reason ?? error)}\n`);
      if (reason !== undefined && error instanceof SuppressedError)
        process.stderr.write(`${messageOf(error)}\n`);
      code = 1;
    }
  }
  // Not left to the event loop: an interrupted start of the services may hold it.
  process.exit(code);
}

/** Resolves with `work`, or rejects as soon as the script is stopped. */
export async function unlessStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stopped = Promise.withResolvers<never>();
  const stop = (): void => stopped.reject(signal.reason);
  signal.addEventListener("abort", stop);
  try {
    return await Promise.race([work, stopped.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
