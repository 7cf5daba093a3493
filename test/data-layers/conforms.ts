import { describe, test } from "vitest";

import { openBench } from "./bench.ts";
import { conformance } from "./conformance.ts";
import type { OpenLayer } from "./layers/layer.ts";

/** Where a layer connects to, and where its work is looked at: the same database. */
export interface Urls {
  readonly layer: string;
  readonly direct: string;
}

/**
 * Runs the suite on a layer.
 *
 * @param exception name of the one guarantee that the layer cannot give
 */
export function conforms<Tx>(
  name: string,
  urls: Urls,
  open: OpenLayer<Tx>,
  exception?: string,
): void {
  const cases = conformance.filter(([guarantee]) => guarantee !== exception);

  // oxlint-disable-next-line vitest/valid-title -- the layer's name
  describe(name, () => {
    // oxlint-disable-next-line vitest/expect-expect -- the cases assert
    test.each(cases)("%s", async (_guarantee, check) => {
      await using bench = await openBench(open, urls.layer, urls.direct);

      await check(bench);
    });
  });
}
