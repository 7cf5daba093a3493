import { fairness } from "./fairness.ts";
import type { Measurement } from "./measurement.ts";
import { order } from "./order.ts";
import { rate } from "./rate.ts";
import { throughput } from "./throughput.ts";
import { utilisation } from "./utilisation.ts";
import { violations } from "./violations.ts";

/** All of them, in the order in which they are done. */
export const measurements: readonly Measurement[] = [
  throughput,
  utilisation,
  violations,
  fairness,
  rate,
  order,
];
