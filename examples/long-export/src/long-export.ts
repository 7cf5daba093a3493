/**
 * The example: an export whose workers are killed on the way, and one that is cancelled, with the
 * books checked in SQL at the end. See README.md of this example.
 */

import { optionsOf, runScript } from "../../../scripts/stage/run-script.ts";
import { createScreen } from "../../../scripts/stage/screen.ts";
import { readOptions } from "./run/options.ts";
import { runExample } from "./run/run-example.ts";

const options = optionsOf("long-export", readOptions);
const screen = createScreen(process.stdout);
await runScript("long-export", screen, (stop) => runExample(options, screen, stop));
