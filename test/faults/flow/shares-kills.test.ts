import { expect, test } from "vitest";
import { startKillable } from "../../flow/support/killable.ts";
import { createSpans, setLimit } from "../../flow/support/spans.ts";
import { eventually } from "../../support/index.ts";
import { randomFrom, seedOf } from "../../support/random.ts";
import { startApp } from "../../worker/support/start-app.ts";

test(
  "a limit is never exceeded while workers and relays are killed, and every job is done",
  { timeout: 300_000 },
  async () => {
    const random = randomFrom(seedOf("shares under kills"));
    await using app = await startApp();
    const spans = await createSpans(app);
    await setLimit(app, 6);
    const killOne = await startKillable(app, spans, random);
    await spans.enqueue(240, 40);

    for (let killed = 0; killed < 8; killed += 1) {
      await eventually(() => spans.succeeded().then((done) => done >= 20 * killed), {
        deadlineMs: 60_000,
      });
      await killOne();
    }
    await eventually(() => spans.succeeded().then((done) => done === 240), { deadlineMs: 120_000 });

    expect(await spans.most()).toBeLessThanOrEqual(6);
    expect(await spans.most()).toBeGreaterThan(3);
  },
);
