/** A relay as a process of its own: options as JSON, then where to kill itself. */

import { createRelay, type RelayOptions } from "@waybill/relay";
import { pino } from "pino";

const [options = "{}", kill = "null"] = process.argv.slice(2);
const killAt = JSON.parse(kill) as { point: string; count: number } | null;
const controller = new AbortController();
process.on("SIGTERM", () => controller.abort());

let passed = 0;
const relay = createRelay(
  { ...(JSON.parse(options) as RelayOptions), logger: pino({ level: "info" }) },
  {
    failpoint(name) {
      if (name !== killAt?.point) return;
      passed += 1;
      if (passed >= killAt.count) process.kill(process.pid, "SIGKILL");
    },
  },
);
const ended = relay.run({ signal: controller.signal });
console.log("ready");
await ended;
