import { WaybillError } from "@waybill/core";
import { CommanderError } from "commander";
import { type ExitCode, exitCodes } from "./exit-codes.ts";
import { shown } from "./output.ts";

/** The exit code of an error. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  if (WaybillError.is(error)) {
    switch (error.code) {
      case "WAYBILL_CONFIG_INVALID":
      case "WAYBILL_NAME_INVALID":
        return exitCodes.usage;
      default:
        return exitCodes.failure;
    }
  }
  return exitCodes.failure;
}

/**
 * What to show of an error: what was tried, the cause, the next step. Waybill's own errors say all
 * three; others get their message, and the stack only where `verbose` asks for it.
 */
export function renderError(error: unknown, verbose: boolean): string {
  if (error instanceof CommanderError) return "";
  const message = error instanceof Error && error.message !== "" ? error.message : String(error);
  const known = WaybillError.is(error);
  const lines = [known ? `waybill: ${message}` : `waybill: Unexpected error: ${message}`];
  if (!known && !verbose) lines.push("Run it again with --log-level debug for the stack trace.");
  if (verbose && error instanceof Error) {
    lines.push(error.stack ?? "");
    for (let cause = error.cause; cause instanceof Error; cause = cause.cause) {
      lines.push(`Caused by: ${cause.stack ?? cause.message}`);
    }
  }
  const text = lines.join("\n");
  // Problems of the configuration name no values, and their examples are URLs with a password.
  return WaybillError.is(error) && error.code === "WAYBILL_CONFIG_INVALID" ? text : shown(text);
}
