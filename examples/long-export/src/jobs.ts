import { defineJob, defineTerminalEvent } from "@waybill/core";
import { z } from "zod";

/** Sales that one step writes: what a crash makes another attempt do again is less than that. */
export const rowsOfStep = 500;

/** Tells whoever subscribes how an export ended. */
export const exportEnded = defineTerminalEvent("sales.export.ended");

/** Writes all sales into an export: minutes to hours of work, in steps. */
export const exportSales = defineJob({
  name: "sales.export",
  queue: "exports",
  payload: z.object({ exportId: z.uuid(), rows: z.int().min(0) }),
  // Where the next attempt goes on: committed with the lines that it stands for.
  checkpoint: z.object({ lastSaleId: z.int(), rows: z.int() }),
  result: z.object({ rows: z.int() }),
  retry: { maxAttempts: 5, initialDelayMs: 1_000 },
  onTerminal: exportEnded,
});
