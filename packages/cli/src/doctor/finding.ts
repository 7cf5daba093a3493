/**
 * `ok`; `notice`: worth knowing, nothing is wrong; `problem`: jobs wait, fail or may be lost to
 * sight until somebody acts; `skipped`: could not be looked at, because of another finding.
 */
export type FindingStatus = "ok" | "notice" | "problem" | "skipped";

/** One thing that the doctor looked at. */
export interface Finding {
  /** What was looked at: `schema`, `relay`, `timers`. */
  readonly check: string;
  readonly status: FindingStatus;
  readonly message: string;
  /** The command or act that mends it. */
  readonly remedy?: string | undefined;
}

/** A finding without remedy. */
export const fine = (check: string, message: string): Finding => ({ check, status: "ok", message });

/** A finding that somebody should act on. */
export const problem = (check: string, message: string, remedy: string): Finding => ({
  check,
  status: "problem",
  message,
  remedy,
});

/** A finding that is worth knowing. */
export const notice = (check: string, message: string, remedy?: string): Finding => ({
  check,
  status: "notice",
  message,
  remedy,
});
