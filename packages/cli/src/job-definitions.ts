/** Definitions of jobs in a module of the application, so that the command can use their schemas. */

import { ConfigError, type JobDefinition } from "@waybill/core";
import { suggestionFor } from "./suggestion.ts";
import { importModule } from "./worker-module.ts";

function isDefinition(value: unknown): value is JobDefinition {
  return (
    typeof value === "object" &&
    value !== null &&
    "name" in value &&
    typeof value.name === "string" &&
    "options" in value &&
    "payload" in value &&
    value.payload !== null &&
    (typeof value.payload === "object" || typeof value.payload === "function") &&
    "~standard" in value.payload
  );
}

/** Definitions among the exports, and in objects and arrays that are exported. */
function definitionsIn(exported: readonly unknown[], depth = 1): readonly JobDefinition[] {
  return exported.flatMap((value) => {
    if (isDefinition(value)) return [value];
    const opens = depth > 0 && typeof value === "object" && value !== null;
    return opens ? definitionsIn(Object.values(value), depth - 1) : [];
  });
}

/**
 * The definition of a job type.
 *
 * @param path of the module's file, from the working directory
 * @throws ConfigError where the module cannot be loaded, or has no definition of that name
 */
export async function loadDefinition(path: string, type: string): Promise<JobDefinition> {
  const found = definitionsIn(Object.values(await importModule(path)));
  const definition = found.find(({ name }) => name === type);
  if (definition !== undefined) return definition;
  const names = [...new Set(found.map(({ name }) => name))];
  const meant = suggestionFor(type, names);
  const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
  const message = `exports no definition of "${type}"${hint} (it exports ${names.join(", ") || "none"})`;
  throw new ConfigError("the waybill command", [{ path, message }]);
}
