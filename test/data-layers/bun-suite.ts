/**
 * The suite on Bun.SQL: `bun --conditions=@waybill/source bun-suite.ts <url> [<url without the pooler>]`.
 * Vitest runs on Node, so this is a program of its own; it prints what each guarantee came to, as JSON.
 */

import { openBench } from "./bench.ts";
import { conformance } from "./conformance.ts";
import { openBunSql } from "./layers/bun-sql.ts";

/** What became of one guarantee: null where it holds. */
export type Outcomes = Readonly<Record<string, string | null>>;

const [url = "", directUrl] = process.argv.slice(2);
const open: typeof openBunSql = (layerUrl) =>
  openBunSql(layerUrl, { prepare: directUrl === undefined });
const outcomes: Record<string, string | null> = {};
for (const [guarantee, check] of conformance) {
  try {
    await using bench = await openBench(open, url, directUrl);
    await check(bench);
    outcomes[guarantee] = null;
  } catch (error) {
    outcomes[guarantee] = error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
}
console.log(JSON.stringify(outcomes));
