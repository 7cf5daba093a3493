/**
 * A relay as a process of its own: its options as JSON, then the failpoint at which it sends itself
 * a signal, the how-many-eth time. A process that froze itself says "thawed" when it goes on.
 */

import { createRelay, type RelayOptions } from "@waybill/relay";
import { pino } from "pino";

/** Where the process kills or freezes itself. */
export interface SignalAt {
  readonly point: string;
  readonly count: number;
  readonly signal: "SIGKILL" | "SIGSTOP";
}

const [options = "{}", at = "null"] = process.argv.slice(2);
const signalAt = JSON.parse(at) as SignalAt | null;
const controller = new AbortController();
process.on("SIGTERM", () => controller.abort());

let passed = 0;
const relay = createRelay(
  { ...(JSON.parse(options) as RelayOptions), logger: pino({ level: "info" }) },
  {
    failpoint(name) {
      if (name !== signalAt?.point) return;
      passed += 1;
      if (passed !== signalAt.count) return;
      process.kill(process.pid, signalAt.signal);
      console.log("thawed");
    },
  },
);
const ended = relay.run({ signal: controller.signal });
console.log("ready");
await ended;
