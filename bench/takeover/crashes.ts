import { databaseNow } from "./board.ts";
import type { Kind, Member } from "./crew.ts";
import type { Death } from "./figures.ts";
import { beginRound, type Stage } from "./stage.ts";

/** Workers at a time. */
const workers = 3;
/** A takeover that is worth a line of its own, in milliseconds. */
const slowMs = 1_000;

/** Kills one of the workers, the one that has lived longest. */
async function killOne(stage: Stage, members: readonly Member[]): Promise<Death> {
  const { pool } = stage.rounds;
  const [victim] = members;
  if (victim === undefined) throw new Error("There is no worker to kill.");
  const round = beginRound(stage);
  await round.occupy(members, [victim]);
  const jobs = await round.jobsOf(victim);
  const killedAt = await databaseNow(pool);
  // Ended when the time is taken: the wait for it is not.
  const gone = victim.child.kill();
  const death = await round.takenOver(victim, jobs, killedAt);
  await gone;
  await round.giveWord(members);
  await round.end();
  return death;
}

/** Kills workers one after the other, each among as many that live. */
export async function measureCrashes(
  stage: Stage,
  kind: Kind,
  kills: number,
): Promise<readonly Death[]> {
  const { crew, screen } = stage;
  let members = await Promise.all(Array.from({ length: workers }, () => crew.startWorker(kind)));
  const deaths: Death[] = [];
  while (deaths.length < kills) {
    const death = await killOne(stage, members);
    deaths.push(death);
    const what = `kill ${deaths.length} of ${kills}: ${death.jobs} jobs started elsewhere within ${Math.round(death.takeoverMs)} ms`;
    // One that stands out is told in any case.
    if (death.takeoverMs > slowMs) screen.event(what);
    else screen.progress(what, deaths.length / kills);
    members = [
      ...members.slice(1),
      ...(deaths.length < kills ? [await crew.startWorker(kind)] : []),
    ];
  }
  screen.endProgress();
  await Promise.all(members.map(({ child }) => child.stop()));
  return deaths;
}
