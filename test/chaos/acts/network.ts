import { setTimeout as delay } from "node:timers/promises";
import { until } from "../../../scripts/stage/until.ts";
import type { FaultProxy } from "../../support/proxy.ts";
import { type WayName, wayNames } from "../field.ts";
import type { Act, Scene } from "../storm.ts";

/** Class and method of AMQP 0-9-1, as they are in a frame. */
const publish = Uint8Array.of(0, 60, 0, 40);
const ack = Uint8Array.of(0, 60, 0, 80);

const isOf =
  (word: "database" | "broker") =>
  (name: WayName): boolean =>
    name.endsWith(word);

interface Fault {
  /** @default any of them */
  readonly ways?: ((name: WayName) => boolean) | undefined;
  readonly isCut: boolean;
  readonly act: (way: FaultProxy, lastsMs: number, scene: Scene) => Promise<void>;
}

const during =
  (begin: (way: FaultProxy) => void): Fault["act"] =>
  async (way, lastsMs) => {
    begin(way);
    await delay(lastsMs);
    way.pass();
  };

/** What was swallowed stays lost, so the connections end with it, as at a firewall that has forgotten them. */
const swallow =
  (direction: "both" | "out" | "in"): Fault["act"] =>
  async (way, lastsMs) => {
    way.blackHole(direction);
    await delay(lastsMs);
    way.pass();
    way.cut();
  };

/** Cuts after the next one of these, or after the time where none comes. */
const loseReply =
  (pattern: string | Uint8Array): Fault["act"] =>
  async (way, lastsMs, { signal }) => {
    const before = way.triggeredCount;
    way.cutReply(pattern);
    const fired = async (): Promise<true | undefined> =>
      way.triggeredCount > before ? true : undefined;
    await until("the pattern to be sent", fired, {
      deadlineMs: lastsMs,
      intervalMs: 20,
      signal,
    }).catch(() => way.cut());
    // The reply of a server that is slow is lost as well.
    await delay(100);
    way.pass();
  };

const faults: Readonly<Record<string, Fault>> = {
  reset: { isCut: true, act: async (way) => way.cut() },
  refuse: { isCut: true, act: during((way) => way.refuse()) },
  "black hole": { isCut: true, act: swallow("both") },
  "black hole out": { isCut: true, act: swallow("out") },
  "black hole in": { isCut: true, act: swallow("in") },
  "lose reply to COMMIT": { ways: isOf("database"), isCut: true, act: loseReply("COMMIT") },
  "lose confirm of publish": {
    ways: (name) => name === "relays to broker",
    isCut: true,
    act: loseReply(publish),
  },
  "cut after ack": {
    ways: (name) => name === "workers to broker",
    isCut: true,
    act: loseReply(ack),
  },
  delay: { isCut: false, act: during((way) => way.slow(100)) },
  throttle: { isCut: false, act: during((way) => way.throttle(50_000)) },
};

const actOf =
  ({ ways = () => true, isCut, act }: Fault): Act =>
  async ({ fault, pick, lastsMs }, scene) => {
    const names = wayNames.filter(ways);
    const name = names[Math.floor(pick * names.length)];
    if (name === undefined) return;
    scene.chronicle.note(`${fault}: ${name} for ${lastsMs} ms`);
    // Nothing waits for the other links when a worker dies.
    const calm = name.startsWith("workers") ? scene.chronicle.disturb("link") : () => undefined;
    await act(scene.field.ways[name], lastsMs, scene);
    if (isCut) scene.chronicle.counts.cuts += 1;
    calm();
  };

/** Faults of the links, by name. */
export const networkActs: Readonly<Record<string, Act>> = Object.fromEntries(
  Object.entries(faults).map(([name, fault]) => [name, actOf(fault)]),
);
