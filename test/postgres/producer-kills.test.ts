import { expect, test } from "vitest";
import { killProducers } from "./support/kill-producers.ts";

test("A1: producers killed between their writes and the COMMIT leave neither job nor business row", async () => {
  const { halves, missing, told } = await killProducers(5);

  expect(halves).toEqual([]);
  expect(missing).toEqual(new Set());
  expect(told).toBeGreaterThan(100);
});
