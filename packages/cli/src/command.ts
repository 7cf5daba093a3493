/** What all commands share: reading settings, the exit code, the one place that renders errors. */

import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { type Logger, silentLogger } from "@waybill/core";
import type { Environment } from "./env.ts";
import type { ExitCode } from "./exit-codes.ts";
import { createLogger } from "./logger.ts";
import { createOutput, type Output } from "./output.ts";
import {
  type DaemonFlags,
  type GlobalFlags,
  type NeededUrl,
  resolveSettings,
  type Settings,
} from "./settings.ts";

/** What a command gets to work with. */
export interface CommandRun<N extends NeededUrl> {
  readonly settings: Settings & { readonly [K in N]: string };
  readonly output: Output;
  /** Silent unless a log level was asked for; daemons make their own. */
  readonly logger: Logger;
}

/** One run of the program. */
export interface Program {
  readonly environment: Environment;
  /** Runs a command's work; its answer becomes the exit code. */
  run<N extends NeededUrl>(
    command: CommandUnknownOpts,
    needs: readonly N[],
    work: (run: CommandRun<N>) => Promise<ExitCode>,
  ): Promise<void>;
}

/** The flags that were given, the program's own included. */
export function flagsOf(command: CommandUnknownOpts): GlobalFlags & DaemonFlags {
  return command.optsWithGlobals() as unknown as GlobalFlags & DaemonFlags;
}

/** A program that reports exit codes to `finish`. */
export function createProgram(environment: Environment, finish: (code: ExitCode) => void): Program {
  return {
    environment,
    async run(command, needs, work) {
      const flags = flagsOf(command);
      const settings = resolveSettings(flags, environment, needs);
      const output = createOutput({
        json: flags.json ?? false,
        quiet: flags.quiet ?? false,
        color: flags.color,
      });
      const logger =
        settings.logLevel === undefined ? silentLogger : createLogger(settings.logLevel, "stderr");
      finish(await work({ settings, output, logger }));
    },
  };
}
