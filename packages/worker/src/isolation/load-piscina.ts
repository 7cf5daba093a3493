import { ConfigError } from "@waybill/core";
import type { Piscina } from "piscina";

/**
 * Loads piscina, which only those applications install that use threads.
 *
 * @throws ConfigError where it is missing or cannot be loaded
 */
export async function loadPiscina(
  jobName: string,
  load: () => Promise<{ readonly Piscina: typeof Piscina }> = () => import("piscina"),
): Promise<typeof Piscina> {
  try {
    return (await load()).Piscina;
  } catch (error) {
    const isMissing = (error as { code?: unknown }).code === "ERR_MODULE_NOT_FOUND";
    const fact = isMissing
      ? "needs the package piscina, which is not installed; run: npm install piscina"
      : `needs the package piscina, which cannot be loaded (${(error as Error).message}); run: npm install piscina`;
    throw new ConfigError(
      `worker.handle("${jobName}")`,
      [{ path: "isolation", message: `"thread" ${fact}` }],
      { cause: error },
    );
  }
}
