import type { Screen } from "../../scripts/stage/screen.ts";
import type { Crew } from "./crew.ts";
import { Round, type RoundGround } from "./round.ts";

/** What the measurements work with. */
export interface Stage {
  readonly crew: Crew;
  readonly rounds: RoundGround;
  readonly screen: Screen;
  nextRound: number;
}

/** A round that nothing runs in yet. */
export function beginRound(stage: Stage): Round {
  const round = new Round(stage.rounds, stage.nextRound);
  stage.nextRound += 1;
  return round;
}
