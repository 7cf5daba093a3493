export { randomFrom } from "../../scripts/stage/chance.ts";

/** The seed of a run: WAYBILL_SEED, or one by chance; printed, so that a failure can be repeated. */
export function seedOf(test: string): number {
  const seed = Number(process.env["WAYBILL_SEED"] ?? Math.floor(Math.random() * 1_000_000));
  console.log(`${test}: WAYBILL_SEED=${seed}`);
  return seed;
}
