/** Definitions of jobs, as an application shares them between its services. */

import { defineJob, type JobDefinition } from "@waybill/core";
import { z } from "zod";

export const jobs: Readonly<Record<string, JobDefinition>> = {
  welcome: defineJob({
    name: "email.welcome",
    queue: "emails",
    payload: z.object({ to: z.email() }),
  }),
  bye: defineJob({ name: "email.bye", queue: "emails", payload: z.object({}) }),
};
