/** A job in three versions (the second splits a field, the third turns a text into a number), and workers of each. */

import { defineJob } from "@waybill/core";
import type { Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { z } from "zod";
import { writeEffect } from "./start-app.ts";

const v1 = z.strictObject({ name: z.string(), amount: z.string() });
export const v2 = z.strictObject({ first: z.string(), last: z.string(), amount: z.string() });
export const v3 = z.strictObject({ first: z.string(), last: z.string(), cents: z.int() });

export const fromV1 = (payload: unknown): unknown => {
  const { name, ...rest } = v1.parse(payload);
  const [first, last] = name.split(" ");
  return { ...rest, first, last };
};
export const fromV2 = (payload: unknown): unknown => {
  const { amount, ...rest } = v2.parse(payload);
  return { ...rest, cents: Math.round(Number(amount) * 100) };
};

export const job1 = defineJob({ name: "order.pay", queue: "work", payload: v1 });
const job2 = defineJob({
  name: "order.pay",
  queue: "work",
  version: 2,
  payload: v2,
  upcasters: { 1: fromV1 },
});
export const job3 = defineJob({
  name: "order.pay",
  queue: "work",
  version: 3,
  payload: v3,
  upcasters: { 1: fromV1, 2: fromV2 },
});

export const payloads: Readonly<Record<number, object>> = {
  1: { name: "Ada Lovelace", amount: "12.50" },
  2: { first: "Ada", last: "Lovelace", amount: "12.50" },
  3: { first: "Ada", last: "Lovelace", cents: 1250 },
};

/** What handlers of any version make of the payload, which is the same person and the same amount. */
const paid = (first: string, last: string, cents: number): string => `${first} ${last} ${cents}`;

type Release = (worker: Worker<PoolClient>, paidBy: Map<string, string>) => void;

export const releases: Readonly<Record<number, Release>> = {
  1: (worker, paidBy) =>
    worker.handleInTransaction(job1, async (job, tx) => {
      const [first = "", last = ""] = job.payload.name.split(" ");
      paidBy.set(job.id, paid(first, last, Number(job.payload.amount) * 100));
      await writeEffect(tx, job);
    }),
  2: (worker, paidBy) =>
    worker.handleInTransaction(job2, async (job, tx) => {
      const { first, last, amount } = job.payload;
      paidBy.set(job.id, paid(first, last, Number(amount) * 100));
      await writeEffect(tx, job);
    }),
  3: (worker, paidBy) =>
    worker.handleInTransaction(job3, async (job, tx) => {
      const { first, last, cents } = job.payload;
      paidBy.set(job.id, paid(first, last, cents));
      await writeEffect(tx, job);
    }),
};
