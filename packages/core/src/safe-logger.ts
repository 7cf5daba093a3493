import type { Logger } from "./logger.ts";
import { cleanText } from "./text.ts";

const messageLength = 2_000;
const stackLineLength = 500;
/** Causes of an error that are followed. */
const causesMax = 4;

function textField(error: object, name: "message" | "stack" | "name"): string | undefined {
  const value = (error as Record<string, unknown>)[name];
  return typeof value === "string" ? value : undefined;
}

/**
 * An error as it may be logged: of its own class, with message, stack, code and causes, all cleaned, and
 * nothing else. Drivers put rows, statements and requests into fields of their own, and loggers write every
 * field. Never throws.
 */
export function loggableError(error: unknown, depth = 0): unknown {
  try {
    if (typeof error !== "object" || error === null) return cleanText(String(error), messageLength);
    const fields: PropertyDescriptorMap = {};
    const add = (name: string, value: unknown): void => {
      fields[name] = { value, enumerable: name === "code", configurable: true, writable: true };
    };
    add("message", cleanText(textField(error, "message") ?? "", messageLength));
    const stack = textField(error, "stack");
    if (stack !== undefined) {
      const lines = stack.split("\n").map((line) => cleanText(line, stackLineLength));
      add("stack", lines.join("\n"));
    }
    const { code, cause, errors } = error as Readonly<Record<string, unknown>>;
    if (typeof code === "string" || typeof code === "number") add("code", code);
    // An AggregateError of several addresses has an empty message of its own.
    const reason = cause ?? (Array.isArray(errors) ? (errors[0] as unknown) : undefined);
    if (reason !== undefined && depth < causesMax) add("cause", loggableError(reason, depth + 1));
    const name = textField(error, "name");
    if (name !== undefined) add("name", cleanText(name, 200));
    return Object.create(
      error instanceof Error ? (Object.getPrototypeOf(error) as object) : Error.prototype,
      fields,
    );
  } catch {
    return new Error("An error that cannot be read.");
  }
}

/**
 * A logger as Waybill uses the application's. Its failures are kept away: a log line that cannot be
 * written must not keep a job from being settled. What is logged as `err` becomes {@link loggableError}.
 */
export function safeLogger(logger: Logger): Logger {
  const line =
    (level: "debug" | "info" | "warn" | "error") =>
    (fields: object, message: string): void => {
      try {
        logger[level](
          "err" in fields ? { ...fields, err: loggableError(fields.err) } : fields,
          message,
        );
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
