/**
 * Preloaded into a process (`--import`): its wall clock is off by the milliseconds in the file that
 * CLOCK_FILE names, in all its threads, and jumps when the file changes. Its monotonic clock is
 * right, as on a machine whose time is set.
 */

import { readFileSync } from "node:fs";

const file = process.env["CLOCK_FILE"] ?? "";
const RealDate = Date;
/** How long a read offset is used, in milliseconds. */
const freshMs = 10;
let offset = 0;
let readAt = -freshMs;

function now(): number {
  const at = performance.now();
  if (at - readAt >= freshMs) {
    offset = Number(readFileSync(file, "utf8"));
    readAt = at;
  }
  return RealDate.now() + offset;
}

globalThis.Date = new Proxy(RealDate, {
  apply: () => new RealDate(now()).toString(),
  construct: (target, args: unknown[], newTarget): object =>
    Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
  get: (target, key, receiver): unknown =>
    key === "now" ? now : Reflect.get(target, key, receiver),
});
