import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../../scripts/stage/until.ts";
import { alive, databaseNow, refused, type RunningJob } from "./board.ts";
import type { Member } from "./crew.ts";
import type { Death } from "./figures.ts";
import { beginRound, type Stage } from "./stage.ts";

/** Workers that are frozen at a time, so that not each has to wait for a lease of its own. */
const frozenAtATime = 5;
/** Workers that go on meanwhile. */
const survivors = 3;
const deadlineMs = 60_000;

interface Frozen {
  readonly member: Member;
  readonly jobs: readonly RunningJob[];
  readonly frozenAt: number;
}

/**
 * Does something to each worker at even distances within a heartbeat, from which their heartbeats count:
 * frozen together, each has another part of its lease left.
 */
async function spread<Item, Result>(
  { rounds }: Stage,
  items: readonly Item[],
  act: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const { leaseMs, signal } = rounds;
  const results: Promise<Result>[] = [];
  for (const item of items) {
    const result = act(item);
    // Heard of at the end.
    result.catch(() => undefined);
    results.push(result);
    await sleep(leaseMs / 3 / items.length, undefined, { signal });
  }
  return await Promise.all(results);
}

/** Wakes workers whose jobs run elsewhere by now, and sees that nothing they write counts. */
async function wake(stage: Stage, frozen: readonly Frozen[]): Promise<void> {
  const { pool, signal } = stage.rounds;
  await spread(stage, frozen, async ({ member }) => member.child.thaw());
  for (const { member, jobs } of frozen) {
    const { name, pid } = member.child;
    const ids = jobs.map(({ id }) => id);
    await until(
      `the late effects of ${name} to be refused`,
      async () => ((await refused(pool, pid, ids)) === ids.length ? true : undefined),
      { deadlineMs, signal },
    );
  }
}

/** Freezes the victims together, and measures each. */
async function freezeSome(
  stage: Stage,
  victims: readonly Member[],
  others: readonly Member[],
): Promise<readonly Death[]> {
  const { pool, signal } = stage.rounds;
  const pids = victims.map(({ child }) => child.pid);
  await until(
    "all workers to be alive",
    async () => ((await alive(pool, pids)) === pids.length ? true : undefined),
    { deadlineMs, signal },
  );
  const round = beginRound(stage);
  await round.occupy([...victims, ...others], victims);
  const frozen: Frozen[] = [];
  for (const member of victims) {
    const jobs = await round.jobsOf(member);
    const frozenAt = await databaseNow(pool);
    member.child.freeze();
    frozen.push({ member, jobs, frozenAt });
  }
  const deaths = await Promise.all(
    frozen.map(({ member, jobs, frozenAt }) => round.takenOver(member, jobs, frozenAt)),
  );
  // While the jobs still run elsewhere: an effect of the old owner would be the worst now.
  await round.giveWord(victims);
  await wake(stage, frozen);
  await round.giveWord(others);
  await round.end();
  return deaths;
}

/** Freezes workers, some at a time; about half of them run jobs without deliveries. */
export async function measureFreezes(stage: Stage, freezes: number): Promise<readonly Death[]> {
  const { crew, screen } = stage;
  const atATime = Math.min(frozenAtATime, freezes);
  const others = await Promise.all(
    Array.from({ length: survivors }, () => crew.startWorker("held")),
  );
  const kinds = Array.from({ length: atATime }, (_, n) => (n % 2 === 0 ? "held" : "leased"));
  const victims = await spread(stage, kinds, (kind) => crew.startWorker(kind));
  const deaths: Death[] = [];
  while (deaths.length < freezes) {
    const some = victims.slice(0, freezes - deaths.length);
    const idle = victims.slice(some.length);
    for (const death of await freezeSome(stage, some, [...others, ...idle])) {
      deaths.push(death);
      screen.event(
        `freeze ${deaths.length} of ${freezes}: ${death.jobs} jobs started elsewhere within ${(death.takeoverMs / 1_000).toFixed(1)} s`,
      );
    }
  }
  return deaths;
}
