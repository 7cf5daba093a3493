import type { Logger } from "@waybill/core";

/**
 * The application's logger, without its failures: a log line that cannot be written must not keep a
 * job from being settled.
 */
export function safeLogger(logger: Logger): Logger {
  const line =
    (level: "debug" | "info" | "warn" | "error") =>
    (fields: object, message: string): void => {
      try {
        logger[level](fields, message);
      } catch {
        // There is nowhere to say so.
      }
    };
  return {
    child(bindings) {
      try {
        return safeLogger(logger.child(bindings));
      } catch {
        return this;
      }
    },
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
  };
}
