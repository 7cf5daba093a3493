/**
 * The faults of a run: one table, which the schedule is made from. `role` is a kind of process, `way` a link. What needs
 * root or a package that may be missing (a full disk, wrong clocks, PgBouncer) is not here: see `--only`.
 */

/** Roles of the processes. */
export type Role = "producer" | "relay" | "worker";

/** Whose faults are done one after the other; faults of different lanes overlap. */
export type Lane = "processes" | "broker" | "database" | "network";

/** One kind of fault. */
export interface FaultKind {
  readonly name: string;
  readonly lane: Lane;
  /** How many there are for each of `per`; a part of one is one in so many runs. */
  readonly count: number;
  /** Planned processes killed, brokers killed, databases killed, or connections cut: what the mode asks for. */
  readonly per: "processKills" | "brokerKills" | "databaseKills" | "cuts";
  /** How long it lasts, in milliseconds: anything between the two. */
  readonly lastsMs: readonly [number, number];
  /** Headings of the catalogue that it is about. */
  readonly covers: string;
}

/** All kinds of faults of a run. */
export const faultKinds: readonly FaultKind[] = [
  // Parts of the kills; each dead process is replaced at once.
  fault("kill producer", "processes", 0.16, "processKills", [0, 0], "A1 I2"),
  fault("kill relay", "processes", 0.34, "processKills", [0, 0], "B4"),
  fault("kill worker", "processes", 0.5, "processKills", [0, 0], "D1"),
  fault("freeze relay", "processes", 0.05, "processKills", [1_000, 6_000], "B5"),
  fault("freeze worker", "processes", 0.06, "processKills", [1_000, 12_000], "D2"),
  fault("stop relay", "processes", 0.03, "processKills", [0, 0], "H3"),
  fault("stop worker", "processes", 0.06, "processKills", [0, 0], "H3"),

  fault("kill broker", "broker", 1, "brokerKills", [0, 1_500], "C7"),
  fault("freeze broker", "broker", 0.3, "brokerKills", [1_000, 6_000], "C8"),
  fault("memory alarm", "broker", 0.2, "brokerKills", [1_000, 4_000], "C6"),
  fault("disk alarm", "broker", 0.2, "brokerKills", [1_000, 4_000], "C6"),
  fault("close connections", "broker", 0.7, "brokerKills", [0, 0], "C1 D4"),
  // What an operator may do by mistake.
  fault("purge queue", "broker", 0.2, "brokerKills", [0, 0], "C10"),
  fault("delete queue", "broker", 0.2, "brokerKills", [0, 0], "C10 D6"),
  fault("delete dead-letter exchange", "broker", 0.1, "brokerKills", [0, 0], "C10"),

  fault("kill database", "database", 0.5, "databaseKills", [0, 1_500], "E3"),
  fault("immediate shutdown", "database", 0.5, "databaseKills", [0, 1_500], "E3"),
  fault("freeze database", "database", 0.2, "databaseKills", [500, 3_000], "E2"),
  fault("end sessions", "database", 0.5, "databaseKills", [0, 0], "B8 E3"),

  fault("reset", "network", 0.35, "cuts", [0, 0], "C1 D4"),
  fault("refuse", "network", 0.15, "cuts", [200, 2_500], "C1"),
  fault("black hole", "network", 0.15, "cuts", [500, 4_000], "C2"),
  fault("black hole out", "network", 0.05, "cuts", [500, 4_000], "C2"),
  fault("black hole in", "network", 0.05, "cuts", [500, 4_000], "C2"),
  fault("lose reply to COMMIT", "network", 0.1, "cuts", [2_000, 2_000], "A2 B6 E7"),
  fault("lose confirm of publish", "network", 0.08, "cuts", [2_000, 2_000], "B4 C1"),
  fault("cut after ack", "network", 0.07, "cuts", [2_000, 2_000], "D1"),
  fault("delay", "network", 0.1, "cuts", [1_000, 4_000], "J5"),
  fault("throttle", "network", 0.1, "cuts", [1_000, 4_000], "J5"),
];

function fault(
  name: string,
  lane: Lane,
  count: number,
  per: FaultKind["per"],
  lastsMs: readonly [number, number],
  covers: string,
): FaultKind {
  return { name, lane, count, per, lastsMs, covers };
}
