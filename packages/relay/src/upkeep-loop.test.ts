import { silentLogger } from "@waybill/core";
import { expect, test } from "vitest";
import { runUpkeep } from "./upkeep-loop.ts";

const hour = 3_600_000;

test("a wake-up that comes while upkeep works is not slept through", async () => {
  const stop = new AbortController();
  let wake = (): void => undefined;
  let looks = 0;

  await runUpkeep(
    {
      name: "test",
      logger: silentLogger,
      random: Math.random,
      onWake: (ends) => {
        wake = ends;
      },
      async work() {
        looks += 1;
        if (looks === 1) wake();
        else stop.abort();
        return hour;
      },
    },
    stop.signal,
  );

  expect(looks).toBe(2);
});

test("a wake-up ends the wait", async () => {
  const stop = new AbortController();
  let wake = (): void => undefined;
  let looks = 0;
  const looked = Promise.withResolvers<void>();

  const ended = runUpkeep(
    {
      name: "test",
      logger: silentLogger,
      random: Math.random,
      onWake: (ends) => {
        wake = ends;
      },
      async work() {
        looks += 1;
        if (looks === 1) looked.resolve();
        else stop.abort();
        return hour;
      },
    },
    stop.signal,
  );
  await looked.promise;
  setImmediate(() => wake());
  await ended;

  expect(looks).toBe(2);
});
