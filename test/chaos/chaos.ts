/**
 * Kills, freezes, cuts off and fills whatever can be, under load, and proves by a ledger that nothing is lost and
 * nothing doubled. See docs/chaos.md.
 */

import { optionsOf, runScript } from "../../scripts/stage/run-script.ts";
import { createScreen } from "../../scripts/stage/screen.ts";
import { runOnly } from "./only.ts";
import { readOptions } from "./options.ts";
import { runChaos } from "./run-chaos.ts";

const options = optionsOf("chaos", readOptions);
const screen = createScreen(process.stdout);
await runScript("chaos", screen, (stop) =>
  "only" in options ? runOnly(options.only) : runChaos(options, screen, stop),
);
