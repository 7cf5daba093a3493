/** What Waybill writes its log lines to: the part of pino that it uses. A pino logger fits. */
export interface Logger {
  child(bindings: Record<string, unknown>): Logger;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

const nothing = (): void => undefined;

/** Writes nothing. */
export const silentLogger: Logger = {
  child: () => silentLogger,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
};
