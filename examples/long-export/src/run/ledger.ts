import type { Pool } from "pg";

/** What became of an export, as the tables say. */
export interface ExportLedger {
  readonly rows: number;
  readonly doubled: number;
  readonly missing: number;
  /** Attempts that went on from a checkpoint. */
  readonly resumed: number;
}

/** Counts the lines of an export against the sales. */
export async function ledgerOf(pool: Pool, exportId: string): Promise<ExportLedger> {
  const found = await pool.query<Record<keyof ExportLedger, number>>(
    `select
       count(l.sale_id)::integer as rows,
       (count(l.sale_id) - count(distinct l.sale_id))::integer as doubled,
       (count(distinct s.id) filter (where l.sale_id is null))::integer as missing,
       (select count(*)::integer from export_start as t where t.export_id = $1 and t.from_rows > 0) as resumed
     from sale as s
     left join export_line as l on l.export_id = $1 and l.sale_id = s.id`,
    [exportId],
  );
  const [ledger] = found.rows;
  if (ledger === undefined) throw new Error("The ledger gave no row.");
  return ledger;
}
