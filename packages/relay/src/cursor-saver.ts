import type { RelayStore } from "@waybill/postgres";
import type { RelayFailpointHook } from "./internals.ts";
import type { Cursor } from "./window-planner.ts";

/** Options of {@link CursorSaver}. */
export interface CursorSaverOptions {
  readonly store: RelayStore;
  readonly epoch: string;
  readonly failpoint: RelayFailpointHook;
  /** Called once, when a save fails or another relay has the term. */
  readonly onFailed: (error: unknown) => void;
}

/** Another relay has taken the term. */
export class TermLostError extends Error {
  constructor() {
    super("another relay has taken the term");
  }
}

const saveEveryMs = 20;
/** A cursor that moved over an empty window is worth a write only now and then. */
const saveIdleMs = 5_000;

/** Saves the cursor, at most every 20 ms, each save carrying the term's epoch. */
export class CursorSaver {
  readonly #options: CursorSaverOptions;
  #pending: Cursor | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerIsIdle = false;
  #saving: Promise<void> | undefined;
  #stopped = false;

  constructor(options: CursorSaverOptions) {
    this.#options = options;
  }

  /** Takes note of how far everything is settled; `idle`: no row lies between this and the last. */
  note(cursor: Cursor, idle: boolean): void {
    this.#pending = cursor;
    this.#schedule(idle);
  }

  #schedule(idle: boolean): void {
    if (this.#stopped || this.#saving !== undefined) return;
    if (this.#timer !== undefined) {
      if (idle || !this.#timerIsIdle) return;
      clearTimeout(this.#timer);
    }
    this.#timerIsIdle = idle;
    this.#timer = setTimeout(() => void this.#save(), idle ? saveIdleMs : saveEveryMs);
    this.#timer.unref();
  }

  #save(): Promise<void> {
    if (this.#saving !== undefined) return this.#saving;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const cursor = this.#pending;
    if (cursor === undefined || this.#stopped) return Promise.resolve();
    this.#pending = undefined;
    this.#saving = this.#write(cursor).finally(() => {
      this.#saving = undefined;
      if (this.#pending !== undefined) this.#schedule(false);
    });
    return this.#saving;
  }

  async #write(cursor: Cursor): Promise<void> {
    const { store, epoch, failpoint, onFailed } = this.#options;
    try {
      failpoint("relay.beforeSave");
      if (!(await store.saveCursor(epoch, cursor))) throw new TermLostError();
      failpoint("relay.afterSave");
    } catch (error) {
      this.#stopped = true;
      onFailed(error);
    }
  }

  /** Saves what is noted, now. */
  async flush(): Promise<void> {
    await this.#saving;
    await this.#save();
  }

  /** Saves nothing more. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }
}
