import { silentLogger } from "@waybill/core";
import type { RelayStore } from "@waybill/postgres";
import { expect, test } from "vitest";
import { DeadOwners } from "./dead-owners.ts";

interface Looking {
  look(): Promise<number>;
  /** Owners whose lock is missing. */
  readonly missing: string[];
  /** What each look takes for missing long enough. */
  readonly told: (readonly string[])[];
}

function startLooking(): Looking {
  const missing: string[] = [];
  const told: (readonly string[])[] = [];
  const store: Pick<RelayStore, "fireLeases"> = {
    async fireLeases(_limit, before) {
      told.push(before);
      return { jobs: 0, missing: [...missing] };
    },
  };
  const owners = new DeadOwners({
    store: store as RelayStore,
    patiently: (work) => work(store as RelayStore),
    logger: silentLogger,
    failpoint: () => undefined,
    onLeases: () => undefined,
    onDispatched: () => undefined,
  });
  return { look: () => owners.fireLeases(), missing, told };
}

/** Looks until the owner is taken for dead. */
async function lookUntilDead(looking: Looking, owner: string): Promise<void> {
  const last = async (): Promise<readonly string[] | undefined> => {
    await looking.look();
    return looking.told.at(-1);
  };
  await expect.poll(last, { timeout: 20_000 }).toEqual([owner]);
}

test("an owner whose lock is missing is taken for dead only where it stays missing", async () => {
  const looking = startLooking();
  looking.missing.push("a");

  await looking.look();
  await looking.look();
  expect(looking.told).toEqual([[], []]);

  await lookUntilDead(looking, "a");
});

test("an owner whose lock came back is given its time anew when it is missing again", async () => {
  const looking = startLooking();
  looking.missing.push("a");
  await lookUntilDead(looking, "a");

  looking.missing.pop();
  await looking.look();
  looking.missing.push("a");
  await looking.look();
  await looking.look();

  expect(looking.told.slice(-2)).toEqual([[], []]);
});
