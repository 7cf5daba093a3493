/**
 * The demo: the main job on real input, with a worker and the relay killed on the way, and the books
 * checked in SQL at the end. See README.md of this example.
 */

import { optionsOf, runScript } from "../../../scripts/stage/run-script.ts";
import { createScreen } from "../../../scripts/stage/screen.ts";
import { readOptions } from "./demo/options.ts";
import { runDemo } from "./demo/run-demo.ts";

const options = optionsOf("demo", readOptions);
const screen = createScreen(options.json ? process.stderr : process.stdout);
await runScript("demo", screen, (stop) => runDemo(options, screen, stop));
