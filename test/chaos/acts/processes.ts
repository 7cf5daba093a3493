import type { Role } from "../faults.ts";
import type { Act } from "../storm.ts";

const kill =
  (role: Role): Act =>
  async ({ pick }, { cast, chronicle, signal }) => {
    const victim = await cast.pick(role, pick, signal);
    chronicle.note(`kill ${victim.name}`);
    cast.kill(victim);
  };

const freeze =
  (role: Role): Act =>
  async ({ pick, lastsMs }, { cast, chronicle, signal }) => {
    const victim = await cast.pick(role, pick, signal);
    chronicle.note(`freeze ${victim.name} for ${lastsMs} ms`);
    cast.freeze(victim, lastsMs);
  };

const stop =
  (role: Role): Act =>
  async ({ pick }, { cast, chronicle, signal }) => {
    const victim = await cast.pick(role, pick, signal);
    chronicle.note(`stop ${victim.name}`);
    // It takes its time; the next fault does not wait for it.
    cast.restart(victim).catch(() => undefined);
  };

/** Faults of processes, by name. */
export const processActs: Readonly<Record<string, Act>> = {
  "kill producer": kill("producer"),
  "kill relay": kill("relay"),
  "kill worker": kill("worker"),
  "freeze relay": freeze("relay"),
  "freeze worker": freeze("worker"),
  "stop relay": stop("relay"),
  "stop worker": stop("worker"),
};
