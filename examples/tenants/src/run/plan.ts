import type { EnqueueItem } from "@waybill/postgres";
import { chance } from "../../../../scripts/stage/chance.ts";
import { type chargeInvoice, type postEntry, type renderStatement } from "../jobs.ts";

/** A tenant and its tier; null: none, so what holds for every key. */
export interface Tenant {
  readonly name: string;
  readonly tier: "team" | "enterprise" | null;
}

/** The one with the most work has the smallest share. */
export const hooli: Tenant = { name: "hooli", tier: null };
/** Those that come when hooli is there already. */
export const latecomers: readonly Tenant[] = [
  { name: "initech", tier: "enterprise" },
  { name: "globex", tier: "team" },
];
/** All of them, in the order in which they are shown. */
export const tenants: readonly Tenant[] = [...latecomers, hooli];

/** Jobs of each kind, in all. */
export interface Plan {
  /** Statements that the tenants share the queue for. */
  readonly statements: Readonly<Record<string, number>>;
  readonly charges: number;
  /** Statements that come while the provider is down. */
  readonly meanwhile: number;
  readonly postings: number;
}

const accountsOfTenant = 3;

/** Divides the jobs among the parts of the demo. */
export function planJobs(jobs: number): Plan {
  const part = (fraction: number): number => Math.round(jobs * fraction);
  const [initech, globex] = [part(0.16), part(0.16)];
  const [charges, meanwhile, postings] = [part(0.1), part(0.2), part(0.16)];
  const rest = jobs - initech - globex - charges - meanwhile - postings;
  return { statements: { initech, globex, hooli: rest }, charges, meanwhile, postings };
}

/** Numbers of one part of the work. */
interface Numbers {
  readonly first: number;
  readonly count: number;
}

const numbers = ({ first, count }: Numbers): readonly number[] =>
  Array.from({ length: count }, (_, n) => first + n);

/** The tenant of a job that is anybody's: one after the other. */
const tenantOf = (n: number): string => tenants[n % tenants.length]?.name ?? "";

/** Statements of one tenant, or of all of them by turns. */
export function makeStatements(
  seed: number,
  which: Numbers,
  tenant?: string,
): readonly EnqueueItem<typeof renderStatement>[] {
  return numbers(which).map((n) => ({
    payload: { statement: n, workMs: 50 + Math.floor(50 * chance(seed, "work", n)) },
    options: { concurrencyKey: tenant ?? tenantOf(n) },
  }));
}

/** Charges of all tenants by turns. */
export function makeCharges(which: Numbers): readonly EnqueueItem<typeof chargeInvoice>[] {
  return numbers(which).map((n) => ({
    payload: { invoice: n },
    options: { concurrencyKey: tenantOf(n) },
  }));
}

/** Postings to the accounts of all tenants by turns; about an eighth fails at first. */
export function makePostings(
  seed: number,
  which: Numbers,
): readonly EnqueueItem<typeof postEntry>[] {
  const accounts = tenants.length * accountsOfTenant;
  return numbers(which).map((n) => {
    const account = `${tenantOf(n)}-${Math.floor((n % accounts) / tenants.length) + 1}`;
    const failsFirst = chance(seed, "fails", n) < 1 / 8;
    return {
      payload: { account, entry: Math.floor(n / accounts), failsFirst },
      options: { concurrencyKey: tenantOf(n), orderingKey: account },
    };
  });
}
