export { runCli } from "./cli.ts";
export { type ExitCode, exitCodes } from "./exit-codes.ts";
export { type RunnableWorker, type WorkerEnvironment, type WorkerExport } from "./worker-module.ts";
