import type { Services } from "../../scripts/services/index.ts";
import type { Screen } from "../../scripts/stage/screen.ts";

/** What measurements work with. */
export interface Stage {
  readonly services: Services;
  readonly screen: Screen;
  /** Aborted by what cannot go on: a process that ended by itself. */
  readonly stop: AbortController;
  /** A directory for the workers' logs. */
  readonly directory: string;
  readonly quick: boolean;
}
