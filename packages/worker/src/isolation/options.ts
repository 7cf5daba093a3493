import { statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseOptions } from "@waybill/core";
import { z } from "zod";

/** Options of `handle` for a job whose handler runs in a thread of its own. */
export interface ThreadHandlerOptions {
  /** Says that the handler is the export of a module, and that it runs in a thread. */
  readonly isolation: "thread";
  /** The module with the handler: `new URL("./render.ts", import.meta.url)`. */
  readonly module: URL;
  /**
   * Name of the exported function.
   * @default "run"
   */
  readonly exportName?: string | undefined;
  /**
   * Heap of each thread, in MiB; 32 to 4096, of which the thread itself takes about 15. A job that
   * needs more fails alone. Buffers lie outside of the heap and are not limited.
   * @default 256
   */
  readonly heapMb?: number | undefined;
  /**
   * Threads of this job type at most, each with one job at a time; 1 to 64. Further jobs wait in
   * their slots.
   * @default the queue's concurrency, but not more than there are cores
   */
  readonly threads?: number | undefined;
}

/** {@link ThreadHandlerOptions} with the defaults filled in, except the one that needs the queue. */
export interface ResolvedThreadOptions {
  readonly isolation: "thread";
  readonly module: URL;
  readonly exportName: string;
  readonly heapMb: number;
  readonly threads?: number | undefined;
}

const isFile = (url: URL): boolean => {
  try {
    return statSync(fileURLToPath(url)).isFile();
  } catch {
    return false;
  }
};

const moduleUrl = z
  .custom<URL>((value) => value instanceof URL && value.protocol === "file:", {
    message: 'expected a file URL, such as new URL("./render.ts", import.meta.url)',
    abort: true,
  })
  .refine(isFile, {
    error: ({ input }) =>
      `there is no file ${String(input)}; a build must keep the module as a file of its own`,
  });

const threadOptions: z.ZodType<ResolvedThreadOptions, ThreadHandlerOptions> = z.strictObject({
  isolation: z.literal("thread"),
  module: moduleUrl,
  exportName: z.string().min(1).max(200).default("run"),
  heapMb: z.int().min(32).max(4_096).default(256),
  threads: z.int().min(1).max(64).optional(),
});

/**
 * Fills in the defaults.
 *
 * @throws ConfigError that names every problem at once
 */
export function resolveThreadOptions(
  jobName: string,
  options: ThreadHandlerOptions,
): ResolvedThreadOptions {
  return parseOptions(`worker.handle("${jobName}")`, threadOptions, options);
}
