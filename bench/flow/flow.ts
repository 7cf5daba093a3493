/**
 * What governed queues cost, whether they use what their limits allow, and whether any limit, share or
 * order is ever broken, also while relays and workers are killed. See docs/performance.md.
 */

import { optionsOf, runScript } from "../../scripts/stage/run-script.ts";
import { createScreen } from "../../scripts/stage/screen.ts";
import { measureFlow } from "./measure-flow.ts";
import { readOptions } from "./options.ts";

const options = optionsOf("flow", readOptions);
const screen = createScreen(process.stdout);
await runScript("flow", screen, (stop) => measureFlow(options, screen, stop));
