import { pgDatabase } from "@waybill/postgres";
import { Pool } from "pg";
import { required } from "./environment.ts";

/** The service's own connections; Waybill writes into the transactions that are made on them. */
export const pool = new Pool({ connectionString: required("DATABASE_URL"), max: 10 });

/** What tells Waybill how transactions look in this data layer. */
export const database = pgDatabase(pool);
