/** A change of a queue's settings, before it is written. */

import {
  ConfigError,
  type ConfigIssue,
  parseOptions,
  type QueueSettings,
  queueSettingNames,
  queueSettings,
  settingsMisfits,
} from "@waybill/core";
import type { QueueOverrides } from "./queue-record.ts";
import type { QueueChange } from "./queues-options.ts";

/** What holds: declared settings with the overrides, as the generated column `settings` has them. */
export function effectiveOf(declared: QueueSettings, overrides: QueueOverrides): QueueSettings {
  const merged = Object.entries({ ...declared, ...overrides });
  return Object.fromEntries(
    merged.filter(([, value]) => value !== null && value !== undefined),
  ) as QueueSettings;
}

const isSetting = (name: string): boolean =>
  (queueSettingNames as readonly string[]).includes(name);

/** Names that nothing would report: null takes away what was never there. */
const unknownNames = (change: QueueChange): ConfigIssue[] =>
  Object.entries(change)
    .filter(([name, value]) => value === null && !isSetting(name))
    .map(([path]) => ({
      path,
      message: `is no setting; there are ${queueSettingNames.join(", ")}`,
    }));

/** Dependencies that a change names and nobody has declared. */
function unknownDependencies(change: QueueChange, known: readonly string[]): ConfigIssue[] {
  const listed = known.length === 0 ? "none is declared" : `declared are ${known.join(", ")}`;
  const unknownIn = (path: string, names: unknown): ConfigIssue[] =>
    (Array.isArray(names) ? (names as readonly unknown[]) : [])
      .filter((name) => typeof name === "string" && !known.includes(name))
      .map((name) => ({ path, message: `${JSON.stringify(name)} is no dependency; ${listed}` }));
  return [
    ...unknownIn("dependsOn", change.dependsOn),
    ...Object.entries(change.types ?? {}).flatMap(([type, limits]) =>
      unknownIn(`types.${type}.dependsOn`, limits?.dependsOn),
    ),
  ];
}

/**
 * The overrides after a change, whose result is checked as a whole.
 *
 * @param dependencies names of all that are declared
 * @throws ConfigError that names every problem of the settings that would hold
 */
export function overridesAfter(
  subject: string,
  change: QueueChange,
  declared: QueueSettings,
  overrides: QueueOverrides,
  dependencies: readonly string[],
): QueueOverrides {
  if (typeof change !== "object" || change === null || Array.isArray(change)) {
    const message = `must be an object with some of ${queueSettingNames.join(", ")}`;
    throw new ConfigError(subject, [{ path: "", message }]);
  }
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  const changed: QueueOverrides = { ...overrides, ...Object.fromEntries(given) };
  parseOptions(subject, queueSettings, effectiveOf(declared, changed), (settings) => [
    ...unknownNames(change),
    ...settingsMisfits(settings),
    ...unknownDependencies(change, dependencies),
  ]);
  return changed;
}
