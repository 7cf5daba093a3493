/**
 * The demo: the main job on real input, with a worker and the relay killed on the way, and the books
 * checked in SQL at the end. See README.md of this example.
 */

import { readOptions, type DemoOptions } from "./demo/options.ts";
import { runDemo } from "./demo/run-demo.ts";
import { createScreen } from "./demo/screen.ts";

class Interrupted extends Error {}

/** What to tell about an error. One that came up while another was on its way follows that one. */
function messageOf(error: unknown): string {
  if (error instanceof SuppressedError) {
    return `${messageOf(error.suppressed)}\nThen, while clearing up: ${messageOf(error.error)}`;
  }
  return error instanceof Error ? error.message : String(error);
}

function options(): DemoOptions | undefined {
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`demo: ${messageOf(error)}\n`);
    process.exit(2);
  }
}

async function main(chosen: DemoOptions): Promise<number> {
  const screen = createScreen(chosen.json ? process.stderr : process.stdout);
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      // Whoever asks twice does not want to wait; the guard of the services clears up.
      if (stop.signal.aborted) process.exit(130);
      stop.abort(new Interrupted(signal));
    });
  }
  try {
    return (await runDemo(chosen, screen, stop)) ? 0 : 1;
  } catch (error) {
    screen.endProgress();
    const { reason } = stop.signal;
    if (reason instanceof Interrupted) {
      process.stderr.write("demo: interrupted; everything it started is ended\n");
      return 130;
    }
    // A process that ended by itself explains whatever failed after it.
    const cause = messageOf(reason ?? error);
    process.stderr.write(`demo: failed: ${cause}\n`);
    if (reason !== undefined && error instanceof SuppressedError)
      process.stderr.write(`${messageOf(error)}\n`);
    return 1;
  }
}

const chosen = options();
// Not left to the event loop: an interrupted start of the services may hold it.
process.exit(chosen === undefined ? 0 : await main(chosen));
