/** Loads the module that `waybill worker` runs, and says clearly what is wrong with it. */

import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { ConfigError, type KeyRing, type Logger, WaybillError } from "@waybill/core";
import type { TopologyMode } from "./settings.ts";

/**
 * What a module's `worker` function gets: options of createWorker as the command line and the
 * environment give them, so that a module need not read the environment.
 *
 * @example
 * export const worker = (environment: WorkerEnvironment) =>
 *   createWorker({ ...environment, database, queues: { emails: { concurrency: 10 } } });
 */
export interface WorkerEnvironment {
  /** DATABASE_URL or --database-url. */
  readonly databaseUrl: string;
  readonly broker: {
    readonly url: string;
    readonly prefix: string;
    readonly topology: TopologyMode;
  };
  readonly schema: string;
  readonly logger: Logger;
  /** Undefined: the worker's own default. */
  readonly name: string | undefined;
  /** Milliseconds that running jobs may take after SIGTERM; undefined: the worker's own default. */
  readonly graceMs: number | undefined;
  /** WAYBILL_SIGNING_KEYS; undefined: messages are not checked. */
  readonly signing: KeyRing | undefined;
  /** WAYBILL_ENCRYPTION_KEYS; undefined: encrypted payloads do not open. */
  readonly encryption: KeyRing | undefined;
}

/** What `waybill worker` runs: a worker of @waybill/worker, by its shape. */
export interface RunnableWorker extends AsyncDisposable {
  /**
   * Works until `signal` aborts, then drains; when `hurrySignal` aborts as well, it hands running jobs
   * back without waiting for them. It may also resolve by itself, to be started anew; when it
   * rejects, the process ends with exit code 1.
   */
  run(options: {
    readonly signal: AbortSignal;
    readonly hurrySignal?: AbortSignal | undefined;
  }): Promise<void>;
}

/** What a worker module may export as `worker`. */
export type WorkerExport =
  | RunnableWorker
  | ((environment: WorkerEnvironment) => RunnableWorker | Promise<RunnableWorker>);

const example =
  "export it as `export const worker = createWorker({ … })`, or as a function of the environment that returns one";

const problem = (path: string, message: string, cause?: unknown): ConfigError =>
  new ConfigError(
    "the waybill command",
    [{ path, message }],
    cause === undefined ? undefined : { cause },
  );

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Why the module cannot be imported, for the reasons that Node's own text leaves puzzling. */
function importProblem(path: string, error: unknown): ConfigError | undefined {
  const text = error instanceof Error ? error.message : String(error);
  switch (codeOf(error)) {
    case "ERR_MODULE_NOT_FOUND":
      return problem(
        path,
        `imports something that is not there: ${text}; install it, or correct the import`,
        error,
      );
    case "ERR_UNKNOWN_FILE_EXTENSION":
      return problem(
        path,
        "is not a kind of file that Node runs; name a .js, .mjs, .ts or .mts file",
        error,
      );
    case "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX":
      return problem(
        path,
        `uses TypeScript that Node cannot strip (${text}); avoid enum, namespace and parameter properties, or compile it first`,
        error,
      );
    case "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING":
      return problem(
        path,
        "is TypeScript inside node_modules, which Node does not run; name its compiled JavaScript",
        error,
      );
    default:
      return error instanceof SyntaxError
        ? problem(path, `has a syntax error: ${text}`, error)
        : undefined;
  }
}

/**
 * What a module exports.
 *
 * @throws ConfigError for a module that is missing or cannot be loaded
 */
export async function importModule(path: string): Promise<Readonly<Record<string, unknown>>> {
  const file = resolve(path);
  const found = await stat(file).catch(() => undefined);
  if (found === undefined)
    throw problem(path, `does not exist (looked at ${file}); correct the path`);
  if (!found.isFile()) throw problem(path, `is a directory (${file}); name the module's file`);
  try {
    return (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    if (WaybillError.is(error)) throw error;
    throw (
      importProblem(path, error) ??
      new Error(
        `Cannot load ${path}: it throws while it is loaded: ${error instanceof Error ? error.message : String(error)}. ` +
          `Correct the module, or the environment that it reads.`,
        { cause: error },
      )
    );
  }
}

function isWorker(value: unknown): value is RunnableWorker {
  return (
    typeof value === "object" &&
    value !== null &&
    "run" in value &&
    typeof value.run === "function" &&
    Symbol.asyncDispose in value
  );
}

/**
 * Loads the worker of a module.
 *
 * @param path of the module's file, from the working directory
 * @throws ConfigError for a module that is missing, cannot be loaded or exports something else
 */
export async function loadWorker(
  path: string,
  environment: WorkerEnvironment,
): Promise<RunnableWorker> {
  const module = await importModule(path);
  const exported = module["worker"];
  if (isWorker(exported)) return exported;
  if (typeof exported === "function") {
    const made: unknown = await (exported as (given: WorkerEnvironment) => unknown)(environment);
    if (isWorker(made)) return made;
    throw problem(
      path,
      `exports a function \`worker\` that returns no worker (${typeof made}); return what createWorker gives`,
    );
  }
  if (exported !== undefined) {
    throw problem(path, `exports \`worker\`, but it is no worker (${typeof exported}); ${example}`);
  }
  const names = Object.keys(module).filter((name) => name !== "module.exports");
  const listed = names.length === 0 ? "nothing" : names.join(", ");
  throw problem(path, `exports no \`worker\` (it exports ${listed}); ${example}`);
}
