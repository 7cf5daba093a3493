/**
 * Asks the process's main thread, from another thread, what it is at while its event loop does not
 * turn: the inspector stops it between two steps, reads the stack and whose job that is, and lets
 * it go on. A call into native code is waited for; the question reaches the handler as it returns.
 */

import type { Debugger, Runtime, Session } from "node:inspector";
import { type BlockedPlace, currentJobHook } from "./heartbeat-protocol.ts";

/** Calls of the stack that are worth a line in a log. */
const framesMax = 12;

/** False where this build of Node has no inspector. */
export const canInspect: boolean = process.features.inspector;

/** Whether a debugger listens to this process: it may hold the main thread for as long as it likes. */
export function isDebugged(): boolean {
  return canInspect && process.getBuiltinModule("node:inspector").url() !== undefined;
}

/** An inspection that goes on. */
export interface Inspection {
  /** Lets the main thread go. Twice is as good as once. */
  end(): void;
}

/**
 * Begins an inspection, which ends by itself when it has found something.
 *
 * @param isSame whether the main thread has not turned since: later it says nothing about the cause
 */
export function inspectMainThread(
  isSame: () => boolean,
  onFound: (place: BlockedPlace) => void,
): Inspection {
  const session: Session = new (process.getBuiltinModule("node:inspector").Session)();
  const urls = new Map<string, string>();
  let isAsked = false;
  let isEnded = false;
  const end = (): void => {
    if (isEnded) return;
    isEnded = true;
    session.post("Debugger.resume", () => session.disconnect());
  };
  session.on("Debugger.scriptParsed", ({ params }) => void urls.set(params.scriptId, params.url));
  session.on("Debugger.paused", ({ params }) => {
    // Whom we did not stop, we do not let go.
    if (!isAsked || isEnded) return;
    if (!isSame()) return end();
    const stack = stackOf(params.callFrames, urls);
    // The async context is the thread's, whatever the frame.
    const expression = `globalThis[Symbol.for(${JSON.stringify(currentJobHook.description)})]?.()`;
    session.post(
      "Runtime.evaluate",
      { expression, returnByValue: true, silent: true },
      (_error, answer?: Runtime.EvaluateReturnType) => {
        onFound({ ...jobOf(answer?.result.value), stack });
        end();
      },
    );
  });
  session.connectToMainThread();
  // Both at once: a call into native code must not return between the two.
  session.post("Debugger.enable", () => {
    isAsked = true;
  });
  session.post("Debugger.pause");
  return { end };
}

function stackOf(frames: readonly Debugger.CallFrame[], urls: ReadonlyMap<string, string>): string {
  return frames
    .slice(0, framesMax)
    .map(({ functionName, location }) => {
      const { scriptId, lineNumber, columnNumber = 0 } = location;
      const place = `${urls.get(scriptId) ?? ""}:${lineNumber + 1}:${columnNumber + 1}`;
      return `at ${functionName === "" ? "<anonymous>" : functionName} (${place})`;
    })
    .join("\n");
}

function jobOf(value: unknown): BlockedPlace {
  if (typeof value !== "object" || value === null) return {};
  const { jobId, jobName } = value as Record<string, unknown>;
  return typeof jobId === "string" && typeof jobName === "string" ? { jobId, jobName } : {};
}
