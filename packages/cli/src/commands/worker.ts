import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Program } from "../command.ts";
import { addDaemonOptions } from "../daemon-options.ts";
import { exitCodes } from "../exit-codes.ts";
import { createLogger } from "../logger.ts";
import { onStopSignals } from "../stop-signals.ts";
import { waitForServices } from "../wait-for-services.ts";
import { loadWorker } from "../worker-module.ts";

const help = `
The module exports \`worker\`: what createWorker returned, or a function
({ databaseUrl, broker, schema, logger, name, graceMs, signing, encryption }) =>
createWorker({ … }).
TypeScript runs as it is. SIGTERM and SIGINT drain; a second signal hands running jobs back without
waiting for them; a third ends at once. It also ends, with exit code 0, when it is told to restart
(waybill workers restart) or has reached a limit of its option recycle: run it under a supervisor.`;

/**
 * `waybill worker <module>`: runs the handlers of a module until a signal, or until the worker ends
 * by itself to be started anew.
 */
export function addWorkerCommand(root: CommandUnknownOpts, program: Program): void {
  addDaemonOptions(
    root
      .command("worker <module>")
      .description("run the worker that a module exports; logs JSON lines on stdout"),
  )
    .addHelpText("after", help)
    .action(async (path, options, command) => {
      await program.run(command, ["databaseUrl", "rabbitmqUrl"], async ({ settings }) => {
        const logger = createLogger(settings.logLevel ?? "info", "stdout");
        using stop = onStopSignals(logger, "hurry");
        // Loaded first: a module that cannot run should say so before anything waits.
        const worker = await loadWorker(path, {
          databaseUrl: settings.databaseUrl,
          broker: {
            url: settings.rabbitmqUrl,
            prefix: settings.prefix,
            topology: settings.topology,
          },
          schema: settings.schema,
          logger,
          name: settings.name,
          graceMs: settings.graceMs,
          signing: settings.signing,
          encryption: settings.encryption,
        });
        await using running = worker;
        const ready = await waitForServices({
          databaseUrl: settings.databaseUrl,
          rabbitmqUrl: settings.rabbitmqUrl,
          schema: settings.schema,
          wait: options.wait,
          logger,
          signal: stop.signal,
        });
        const { signal, hurrySignal } = stop;
        if (ready) await running.run({ signal, hurrySignal });
        logger.info({}, "worker stopped");
        return exitCodes.ok;
      });
    });
}
