/** Clocks that are wrong and that jump: of processes, and of a PostgreSQL of the test's own. */

import { chmodSync, globSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { canInstallPackages, installPackages } from "../../../scripts/services/debian-packages.ts";
import { type PrivatePostgres, startPrivatePostgres } from "../../../scripts/services/index.ts";
import type { TestProcess } from "../../support/index.ts";
import type { App } from "./start-app.ts";

/** How wrong a clock is, in a file that whoever has the clock reads each time. */
export class WrongClock implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "waybill-clock-"));
  readonly path: string = join(this.#directory, "clock");
  readonly #textOf: (offsetMs: number) => string;

  private constructor(textOf: (offsetMs: number) => string) {
    this.#textOf = textOf;
    // PostgreSQL runs as a user of its own.
    chmodSync(this.#directory, 0o755);
    this.jumpTo(0);
  }

  /** One for {@link startTimedWorker} and {@link startTimedRelay}. */
  static ofProcesses(): WrongClock {
    return new WrongClock(String);
  }

  /** One for {@link startPostgresWithClock}. */
  static ofPostgres(): WrongClock {
    return new WrongClock((offsetMs) => `${offsetMs < 0 ? "" : "+"}${offsetMs / 1_000}`);
  }

  /** The clock is off by so much from now on. */
  jumpTo(offsetMs: number): void {
    // Nobody reads half of it.
    writeFileSync(`${this.path}.next`, this.#textOf(offsetMs));
    renameSync(`${this.path}.next`, this.path);
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Where a process of ours runs. */
export interface TimedPlace {
  /** Wrong where it is given. */
  readonly clock?: WrongClock | undefined;
  /** Time zone. @default UTC */
  readonly zone?: string | undefined;
}

function environmentOf({ clock, zone = "UTC" }: TimedPlace): Readonly<Record<string, string>> {
  if (clock === undefined) return { TZ: zone };
  const preload = new URL("../modules/skewed-clock.ts", import.meta.url);
  return { TZ: zone, CLOCK_FILE: clock.path, NODE_OPTIONS: `--import=${preload.href}` };
}

/** Starts modules/timed-worker.ts as a process; resolves when it consumes. */
export const startTimedWorker = (
  app: App,
  place: TimedPlace,
  leaseMs: number,
): Promise<TestProcess> =>
  app.startWorkerProcess(
    { ...environmentOf(place), LEASE_MS: String(leaseMs) },
    new URL("../modules/timed-worker.ts", import.meta.url),
  );

/** Starts a relay as a process; resolves when it runs. */
export const startTimedRelay = (app: App, place: TimedPlace = {}): Promise<TestProcess> =>
  app.startRelayProcess(environmentOf(place));

const findLibrary = (): string | undefined =>
  globSync([
    "/usr/lib/*/faketime/libfaketime.so.1",
    "/usr/{lib,lib64,local/lib}/faketime/libfaketime.so.1",
  ])[0];

/**
 * Starts a private PostgreSQL that has the given clock. Needs libfaketime, which is installed where
 * this process may install Debian packages.
 *
 * @throws Error with the command to type where it can not be had
 */
export async function startPostgresWithClock(clock: WrongClock): Promise<PrivatePostgres> {
  if (findLibrary() === undefined && canInstallPackages()) await installPackages(["libfaketime"]);
  const library = findLibrary();
  if (library === undefined) {
    throw new Error(
      "Cannot start a PostgreSQL with a clock of its own: libfaketime is not installed. Run: sudo apt-get install libfaketime",
    );
  }
  return await startPrivatePostgres({
    environment: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: clock.path,
      FAKETIME_NO_CACHE: "1",
      // The monotonic clock of a machine never jumps.
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    },
  });
}
