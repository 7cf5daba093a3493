/** The crash at every step: each failpoint of relay and worker, times killed, thrown at, frozen. */

import { expect, test } from "vitest";
import { relayFailpoints } from "../../../packages/relay/src/internals.ts";
import { workerFailpoints } from "../../../packages/worker/src/internals.ts";
import { harmless, meetFault } from "./meet-fault.ts";

test.concurrent.each(relayFailpoints)(
  "B4: a relay killed at %s loses nothing, doubles nothing and leaves nothing behind",
  async (point) => {
    expect(await meetFault(point, "exit")).toEqual(harmless);
  },
);

test.concurrent.each(workerFailpoints)(
  "D1: a worker killed at %s loses nothing, doubles nothing and leaves nothing behind",
  async (point) => {
    expect(await meetFault(point, "exit")).toEqual(harmless);
  },
);

test.concurrent.each(relayFailpoints)(
  "B4: a relay in which %s throws goes on by itself, loses nothing and doubles nothing",
  async (point) => {
    expect(await meetFault(point, "throw")).toEqual(harmless);
  },
);

test.concurrent.each(workerFailpoints)(
  "D1: a worker in which %s throws goes on by itself, loses nothing and doubles nothing",
  async (point) => {
    expect(await meetFault(point, "throw")).toEqual(harmless);
  },
);

test.concurrent.each(relayFailpoints)(
  "B5: a relay that freezes at %s is replaced, and changes nothing when it wakes up",
  async (point) => {
    expect(await meetFault(point, "hang")).toEqual(harmless);
  },
);

test.concurrent.each(workerFailpoints)(
  "D2: a worker that freezes at %s is replaced, and changes nothing when it wakes up",
  async (point) => {
    expect(await meetFault(point, "hang")).toEqual(harmless);
  },
);
