import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Program } from "../command.ts";
import { addDaemonOptions } from "../daemon-options.ts";
import { exitCodes } from "../exit-codes.ts";
import { createLogger } from "../logger.ts";
import { onStopSignals } from "../stop-signals.ts";
import { waitForServices } from "../wait-for-services.ts";

const help = `
Any number of relays may run: one works, the others take over when it dies.
SIGTERM and SIGINT drain; a second signal ends at once.`;

/** `waybill relay`: publishes the outbox and keeps the house until a signal. */
export function addRelayCommand(root: CommandUnknownOpts, program: Program): void {
  addDaemonOptions(
    root
      .command("relay")
      .description("publish the outbox, fire timers, keep retention; logs JSON lines on stdout"),
  )
    .option("--outbox-retention <time>", "default WAYBILL_OUTBOX_RETENTION or 3d")
    .option("--inbox-retention <time>", "default WAYBILL_INBOX_RETENTION or 14d")
    .option("--history-retention <time>", "default WAYBILL_HISTORY_RETENTION or 30d")
    .addHelpText("after", help)
    .action(async (options, command) => {
      const needs = ["relayDatabaseUrl", "rabbitmqUrl"] as const;
      await program.run(command, needs, async ({ settings }) => {
        // Only this command needs it: the others start sooner without.
        const { createRelay } = await import("@waybill/relay");
        const logger = createLogger(settings.logLevel ?? "info", "stdout");
        using stop = onStopSignals(logger, "end");
        const { schema, name, graceMs } = settings;
        // Made first: options out of bounds should say so before anything waits.
        await using relay = createRelay({
          databaseUrl: settings.relayDatabaseUrl,
          broker: {
            url: settings.rabbitmqUrl,
            prefix: settings.prefix,
            topology: settings.topology,
          },
          schema,
          logger,
          name,
          graceMs,
          outboxRetentionMs: settings.outboxRetentionMs,
          inboxRetentionMs: settings.inboxRetentionMs,
          historyRetentionMs: settings.historyRetentionMs,
          signing: settings.signing,
        });
        const ready = await waitForServices({
          databaseUrl: settings.relayDatabaseUrl,
          rabbitmqUrl: settings.rabbitmqUrl,
          schema,
          wait: options.wait,
          logger,
          signal: stop.signal,
        });
        if (ready) await relay.run({ signal: stop.signal });
        logger.info({}, "relay stopped");
        return exitCodes.ok;
      });
    });
}
