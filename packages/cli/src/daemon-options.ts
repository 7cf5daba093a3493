import type { Command, OptionValues } from "@commander-js/extra-typings";
import { Option } from "@commander-js/extra-typings";
import { topologyModes } from "./settings.ts";

/** Options that both daemons take, by their names in the code. */
export type DaemonOptions = {
  readonly wait: boolean;
};

/** Adds the options that both daemons take. */
export function addDaemonOptions<Args extends unknown[]>(
  command: Command<Args, OptionValues, OptionValues>,
): Command<Args, DaemonOptions, OptionValues> {
  return command
    .addOption(
      new Option(
        "--topology <mode>",
        "exchanges and queues at start; default WAYBILL_TOPOLOGY or assert",
      ).choices(topologyModes),
    )
    .option("--name <name>", "name of this process; default WAYBILL_NAME")
    .option("--grace <time>", "time to drain after SIGTERM, such as 30s; default WAYBILL_GRACE")
    .option(
      "--no-wait",
      "fail at once where a server or the schema is not there yet",
    ) as unknown as Command<Args, DaemonOptions, OptionValues>;
}
