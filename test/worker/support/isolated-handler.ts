import { randomUUID } from "node:crypto";
import { type Logger, silentLogger } from "@waybill/core";
import type { Progress } from "@waybill/worker";
import { expect } from "vitest";
import { IsolatedHandler } from "../../../packages/worker/src/isolation/isolated-handler.ts";
import type { IsolatedInput } from "../../../packages/worker/src/isolation/isolated-job.ts";
import { resolveThreadOptions } from "../../../packages/worker/src/isolation/options.ts";
import { eventually } from "../../support/index.ts";

const moduleUrl = new URL("../modules/isolated.ts", import.meta.url);

/** Options of createHandler. */
export interface IsolatedTestOptions {
  readonly exportName?: string;
  readonly module?: URL;
  readonly heapMb?: number;
  readonly threads?: number;
  readonly wantsResult?: boolean;
  readonly logger?: Logger;
}

/** A handler of test/worker/modules/isolated.ts, with one thread if nothing else is said. */
export function createHandler(options: IsolatedTestOptions): IsolatedHandler & AsyncDisposable {
  const { wantsResult = true, logger = silentLogger, module = moduleUrl, ...rest } = options;
  const handler = new IsolatedHandler({
    jobName: "test.job",
    options: resolveThreadOptions("test.job", {
      isolation: "thread",
      threads: 1,
      module,
      ...rest,
    }),
    concurrency: 10,
    wantsResult,
    logger,
  });
  return Object.assign(handler, { [Symbol.asyncDispose]: () => handler.close() });
}

/** See createJob. */
export interface TestJob extends IsolatedInput {
  readonly reports: Progress[];
  readonly abort: (reason: Error) => void;
}

/** A job without a worker; it keeps what is reported. */
export function createJob(payload: unknown = null): TestJob {
  const controller = new AbortController();
  const reports: Progress[] = [];
  return {
    id: randomUUID(),
    name: "test.job",
    payload,
    attempt: 2,
    signal: controller.signal,
    concurrencyKey: undefined,
    correlationId: "order-1",
    headers: { tenant: "acme" },
    enqueuedAt: new Date(0),
    priority: 5,
    checkpoint: { page: 3 },
    reports,
    reportProgress: (progress) => void reports.push(progress),
    abort: (reason) => controller.abort(reason),
  };
}

/** Resolves when the handler has begun: it reports that. */
export const hasBegun = async (job: TestJob): Promise<void> => {
  await eventually(() => job.reports.length > 0);
};

/** What a result rejects with. */
export const errorOf = async (result: Promise<unknown>): Promise<unknown> =>
  await result.then(
    () => expect.fail("it has succeeded"),
    (error: unknown) => error,
  );
