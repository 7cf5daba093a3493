import { PrismaPg } from "@prisma/adapter-pg";
import { prismaDatabase } from "@waybill/postgres";

import { type Prisma, PrismaClient } from "../dist/prisma/client.ts";
import { type Layer, savepointInSql } from "./layer.ts";

const run = (tx: Prisma.TransactionClient, sql: string): Promise<unknown> =>
  tx.$executeRawUnsafe(sql);

/** Prisma 7: a transaction is the client of an interactive one. */
export async function openPrisma(url: string): Promise<Layer<Prisma.TransactionClient>> {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 4 }) });
  return {
    database: prismaDatabase(prisma, { maxWaitMs: 10_000, timeoutMs: 30_000 }),
    run,
    savepoint: (tx, work) => savepointInSql(run, tx, work),
    impostors: { "the root client": prisma, "an extended root client": prisma.$extends({}) },
    [Symbol.asyncDispose]: () => prisma.$disconnect(),
  };
}
