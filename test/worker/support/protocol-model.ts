/**
 * The protocol of the claim as a table, written a second time and in another language: tests
 * compare it with the SQL, row by row and by chance.
 */

/** What the inbox knows of a job. */
export interface ModelRow {
  readonly state: "queued" | "running" | "retry_waiting" | "succeeded" | "failed" | "cancelled";
  readonly attempt: number;
  readonly crashes: number;
  readonly dispatch: number;
  readonly deaths: number;
  readonly token: number;
  readonly owner: "me" | "alive" | "dead" | null;
  readonly isCancelRequested: boolean;
}

/** What the message says. */
export interface ModelMessage {
  readonly dispatch: number;
  readonly death: number;
  readonly isExpired: boolean;
}

/** What the claim makes of both. */
export interface ModelClaim {
  readonly verdict: "run" | "held" | "stale" | "cancelled" | "duplicate";
  readonly row: ModelRow;
}

/** The protocol's table. */
export function claimOf(row: ModelRow | undefined, message: ModelMessage): ModelClaim {
  if (row === undefined) {
    const { isExpired, dispatch, death: deaths } = message;
    const fresh = {
      crashes: 0,
      dispatch,
      deaths,
      token: 1,
      owner: "me",
      isCancelRequested: false,
    } as const;
    return isExpired
      ? { verdict: "cancelled", row: { ...fresh, state: "cancelled", attempt: 0 } }
      : { verdict: "run", row: { ...fresh, state: "running", attempt: 1 } };
  }
  const run = (changes: Partial<ModelRow>): ModelClaim => ({
    verdict: "run",
    row: {
      ...row,
      state: "running",
      owner: "me",
      token: row.token + 1,
      dispatch: Math.max(row.dispatch, message.dispatch),
      ...changes,
    },
  });
  const cancel: ModelClaim = {
    verdict: "cancelled",
    row: { ...row, state: "cancelled", token: row.token + 1 },
  };
  switch (row.state) {
    case "succeeded":
    case "cancelled":
      return { verdict: "duplicate", row };
    case "failed":
      return message.death > 0 && message.death === row.deaths
        ? run({ attempt: 1, crashes: 0 })
        : { verdict: "duplicate", row };
    case "running":
      if (row.owner === "me") return run({});
      if (row.owner === "alive") return { verdict: "held", row };
      return row.isCancelRequested ? cancel : run({ crashes: row.crashes + 1 });
    case "queued":
    case "retry_waiting":
      if (row.isCancelRequested) return cancel;
      if (message.dispatch <= row.dispatch) return { verdict: "stale", row };
      return message.isExpired && row.owner !== null ? cancel : run({ attempt: row.attempt + 1 });
  }
}
