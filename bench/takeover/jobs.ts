import { defineJob } from "@waybill/core";
import { z } from "zod";

/** Runs until its round is over for its worker, then has one effect. */
export const waitForWord = defineJob({
  name: "word.await",
  queue: "takeover",
  payload: z.object({ round: z.int() }),
});
