/**
 * How long the jobs of a dead worker wait until they start elsewhere: workers are killed, and frozen,
 * in the middle of jobs, and the database's clock tells. See docs/guides/long-jobs.md.
 */

import { optionsOf, runScript } from "../../scripts/stage/run-script.ts";
import { createScreen } from "../../scripts/stage/screen.ts";
import { readOptions } from "./options.ts";
import { measureTakeover } from "./measure-takeover.ts";

const options = optionsOf("takeover", readOptions);
const screen = createScreen(process.stdout);
await runScript("takeover", screen, (stop) => measureTakeover(options, screen, stop));
