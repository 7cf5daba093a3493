#!/usr/bin/env node
import { runCli } from "./cli.ts";
import { exitInterrupted } from "./stop-signals.ts";

// A reader that has seen enough ("waybill jobs list | head") is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  process.exit(error.code === "EPIPE" ? 0 : 1);
});

process.on("SIGINT", exitInterrupted);
const code = await runCli(process.argv.slice(2));
// Whatever a worker's module keeps open (its pool) must not keep a drained process alive.
process.stdout.write("", () => process.exit(code));
