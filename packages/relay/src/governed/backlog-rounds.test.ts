/** A backlog of any length, of which a schedule keeps only the first rows, in rounds like those of the governor. */

import { array, assert, boolean, integer, oneof, property, record } from "fast-check";
import { expect, test } from "vitest";
import { BreakerViews } from "./breaker-views.ts";
import { laneMax } from "./lane.ts";
import { noLimits } from "./limits.ts";
import { QueueSchedule } from "./queue-schedule.ts";
import { laneIdOf, type WaitingJob } from "./waiting-job.ts";

const rowsMax = 1_000;

const jobOf = (place: number): WaitingJob => ({
  id: `j${place}`,
  queue: "q",
  place,
  key: place % 3 === 0 ? "small" : "large",
  orderingKey: null,
  type: "t",
  priority: 0,
  dispatch: 1,
});

const round = record({
  /** Jobs that are read from the outbox. */
  read: oneof(integer({ min: 0, max: 40 }), integer({ min: 0, max: 2 * laneMax })),
  picked: integer({ min: 0, max: 900 }),
  /** The settings have changed: nothing of it is written. */
  isStale: boolean(),
});

test("whatever is read, written and picked in between, each job of a long backlog goes once and in its order", () => {
  assert(
    property(array(round, { maxLength: 12 }), (rounds) => {
      const queue = new QueueSchedule("q", noLimits, new BreakerViews(), 0);
      const backlog = new Map<number, WaitingJob>();
      const gone: WaitingJob[] = [];
      let unwritten: WaitingJob[] = [];
      let places = 0;
      const turn = (read: number, picks: number, isStale: boolean): number => {
        const before = gone.length;
        if (unwritten.length === 0) {
          for (const { lane, after, rows: most } of queue.cutLanes()) {
            const rows = [...backlog.values()]
              .filter((job) => laneIdOf(job) === lane && job.place > after)
              .toSorted((a, b) => a.place - b.place)
              .slice(0, most);
            queue.refill(lane, rows, rows.length < most, 0);
          }
        }
        for (let n = 0; n < read; n += 1) {
          const job = jobOf((places += 1));
          queue.add(job, 0);
          unwritten.push(job);
        }
        const picked: WaitingJob[] = [];
        for (let job = queue.pick(0); job !== undefined; job = queue.pick(0)) {
          picked.push(job);
          if (picked.length >= picks) break;
        }
        if (isStale) {
          for (const job of picked.toReversed()) queue.unpick(job, true, 0);
          return 0;
        }
        for (const job of unwritten) backlog.set(job.place, job);
        unwritten = [];
        for (const job of picked) {
          backlog.delete(job.place);
          queue.ended(job.id, 0);
          gone.push(job);
        }
        return gone.length - before;
      };
      for (const { read, picked, isStale } of rounds) turn(read, picked, isStale);
      turn(0, rowsMax, false);
      while (turn(0, rowsMax, false) > 0);

      expect(backlog.size).toBe(0);
      const sizes = ["small", "large"].map((key) => {
        const lane = gone.filter((job) => job.key === key).map(({ place }) => place);
        expect(lane).toEqual(lane.toSorted((a, b) => a - b));
        return lane.length;
      });
      expect(sizes).toEqual([Math.floor(places / 3), places - Math.floor(places / 3)]);
    }),
    { numRuns: 150 },
  );
});
