import type { Services } from "../../../../scripts/services/index.ts";
import type { Ground } from "../../../../scripts/stage/ground.ts";
import { type Ledger, ledgerLines, summary } from "./ledger.ts";
import type { DemoOptions } from "./options.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import type { Kill } from "./takeover.ts";

/** What a run came to. */
export interface Outcome {
  readonly ledger: Ledger;
  readonly kills: readonly Kill[];
  /** From the first event sent until the last job ended. */
  readonly durationMs: number;
}

/** The ledger for people; its last line is the summary. */
export function report(screen: Screen, { ledger, durationMs }: Outcome): void {
  const perSecond = Math.round(ledger.jobs / (durationMs / 1_000));
  screen.event(
    `all jobs have ended, ${(durationMs / 1_000).toFixed(1)} s after the first event: ${perSecond} jobs a second`,
  );
  screen.heading("Ledger, counted in SQL");
  for (const line of ledgerLines(ledger)) screen.line(line);
  screen.line();
  screen.line(summary(ledger));
}

/** The ledger for programs: one object, the only thing on stdout. */
export function reportJson(
  options: DemoOptions,
  services: Services,
  ground: Ground,
  { ledger, kills, durationMs }: Outcome,
): void {
  const object = {
    ...ledger,
    seed: options.seed,
    durationMs: Math.round(durationMs),
    kills: kills.map((kill) => ({ ...kill, takeoverMs: Math.round(kill.takeoverMs) })),
    services: {
      source: services.source,
      why: services.why,
      managementUrl: services.managementUrl ?? null,
      queuePages: ground.pages,
    },
  };
  process.stdout.write(`${JSON.stringify(object)}\n`);
}
