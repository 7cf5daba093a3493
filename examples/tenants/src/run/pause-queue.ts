import { billing, postEntry } from "../jobs.ts";
import { makePostings } from "./plan.ts";
import { allEnded, enqueue, pass, type Stage, succeeded } from "./stage.ts";

const pausedMs = 2_500;

/** Pauses the queue in the middle of postings that have an order, and resumes it. */
export async function pauseQueue(stage: Stage): Promise<void> {
  const { screen, plan, options, queues } = stage;
  screen.heading("A pause, in the middle of postings that go in order");
  const half = Math.ceil(plan.postings / 2);
  const first = await enqueue(
    stage,
    postEntry,
    makePostings(options.seed, { first: 0, count: half }),
  );
  screen.event(`${first.length} postings to nine accounts, one at a time in each`);
  await succeeded(stage, postEntry.name, 5);

  await queues.pause({ queue: billing.name }, { reason: "an auditor looks at them" });
  screen.event(`${billing.name} is paused: what runs goes on, nothing else starts`);
  const rest = { first: half, count: plan.postings - half };
  await enqueue(stage, postEntry, makePostings(options.seed, rest));
  screen.event(`${rest.count} more postings come, and wait as well`);
  await pass(stage, pausedMs);

  await queues.resume({ queue: billing.name });
  screen.event(`${billing.name} is resumed`);
  await allEnded(stage);
  screen.event(`all ${plan.postings} postings are done`);
}
