/**
 * The demo of flow control: three tenants in one queue, a provider that goes down, a pause, with the
 * books checked at the end. See README.md of this example.
 */

import { optionsOf, runScript } from "../../../scripts/stage/run-script.ts";
import { createScreen } from "../../../scripts/stage/screen.ts";
import { readOptions } from "./run/options.ts";
import { runFlow } from "./run/run-flow.ts";

const options = optionsOf("demo:flow", readOptions);
const screen = createScreen(options.json ? process.stderr : process.stdout);
await runScript("demo:flow", screen, (stop) => runFlow(options, screen, stop));
