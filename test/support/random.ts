/** A reproducible stream of numbers in [0, 1). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The seed of a run: WAYBILL_SEED, or one by chance; printed, so that a failure can be repeated. */
export function seedOf(test: string): number {
  const seed = Number(process.env["WAYBILL_SEED"] ?? Math.floor(Math.random() * 1_000_000));
  console.log(`${test}: WAYBILL_SEED=${seed}`);
  return seed;
}
