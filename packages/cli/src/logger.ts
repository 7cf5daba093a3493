import { cleanText, type Logger } from "@waybill/core";
import { pino } from "pino";
import type { LogLevel } from "./settings.ts";

/** Causes of an error that are followed. */
const causesMax = 4;

/** An error as a log line holds it: no fields of other libraries, which may carry credentials. */
function errorFields(error: unknown, depth = 0): object {
  if (!(error instanceof Error)) return { message: cleanText(String(error), 2_000) };
  const code = "code" in error ? { code: error.code } : {};
  const cause =
    error.cause === undefined || depth >= causesMax
      ? {}
      : { cause: errorFields(error.cause, depth + 1) };
  return {
    type: error.name,
    ...code,
    message: cleanText(error.message, 2_000),
    stack: (error.stack ?? "")
      .split("\n")
      .map((line) => cleanText(line, 500))
      .join("\n"),
    ...cause,
  };
}

/**
 * A logger that writes JSON lines. Daemons log to stdout, where their data is; other commands to
 * stderr. Writing is synchronous, so that the last line before the end is not lost.
 */
export function createLogger(level: LogLevel, to: "stdout" | "stderr"): Logger {
  return pino(
    {
      level,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFields },
    },
    pino.destination({ fd: to === "stdout" ? 1 : 2, sync: true }),
  );
}
