import { z } from "zod";
import { type FailureClass, failureClasses } from "./errors.ts";
import { parseOptions } from "./options.ts";
import { dependencyName } from "./queue-settings.ts";

/** When a dependency's breaker opens, and for how long. */
export interface DependencySettings {
  /**
   * Part of the attempts in the window that has to fail; above 0, at most 1.
   * @default 0.5
   */
  readonly failureRate?: number | undefined;
  /**
   * Window that attempts are counted in, in milliseconds; 1 second to 10 minutes.
   * @default 30000
   */
  readonly windowMs?: number | undefined;
  /**
   * Attempts in the window below which it never opens; 1 to 10,000.
   * @default 10
   */
  readonly minimum?: number | undefined;
  /**
   * Failure classes that count as failures of the dependency; attempts that fail with another one count
   * as if it had worked, and those that did not run (`crashed`, `expired`, `no_handler`, `undecodable`,
   * `unauthentic`) not at all.
   * @default ["transient", "rate_limited", "timeout"]
   */
  readonly classes?: readonly FailureClass[] | undefined;
  /**
   * Milliseconds between opening and the first probe; 100 to a day. It doubles with each probe that fails.
   * @default 30000
   */
  readonly openMs?: number | undefined;
  /**
   * Longest such pause, in milliseconds; at least `openMs`, at most a day.
   * @default 600000, or openMs where that is longer
   */
  readonly openMaxMs?: number | undefined;
}

/** {@link DependencySettings} with every default filled in. */
export type ResolvedDependencySettings = {
  readonly [K in keyof DependencySettings]-?: NonNullable<DependencySettings[K]>;
};

/** Something that jobs depend on. Made by {@link defineDependency}. */
export interface DependencyDefinition<Name extends string = string> {
  readonly name: Name;
  readonly settings: ResolvedDependencySettings;
}

const day = 86_400_000;
const openMaxMsDefault = 600_000;

const dependencyOptions: z.ZodType<
  ResolvedDependencySettings & { readonly name: string },
  DependencySettings & { readonly name: string }
> = z
  .strictObject({
    name: dependencyName,
    failureRate: z.number().gt(0).max(1).default(0.5),
    windowMs: z.int().min(1_000).max(600_000).default(30_000),
    minimum: z.int().min(1).max(10_000).default(10),
    classes: z
      .array(z.enum(failureClasses))
      .min(1)
      .default(["transient", "rate_limited", "timeout"]),
    openMs: z.int().min(100).max(day).default(30_000),
    openMaxMs: z.int().min(100).max(day).optional(),
  })
  .refine(({ openMs, openMaxMs }) => openMaxMs === undefined || openMaxMs >= openMs, {
    path: ["openMaxMs"],
    message: "must not be smaller than openMs",
  })
  .transform((options) => ({
    ...options,
    openMaxMs: options.openMaxMs ?? Math.max(options.openMs, openMaxMsDefault),
  }));

/**
 * Defines a dependency of jobs, for `dependsOn` of queues and jobs. Its circuit breaker is shared by the
 * whole fleet: while it is open, jobs that need it wait without spending attempts.
 *
 * @throws ConfigError that names every option that is unknown or out of bounds
 *
 * @example
 * const paymentsApi = defineDependency({ name: "payments-api", failureRate: 0.3, openMs: 10_000 });
 */
export function defineDependency<const Name extends string>(
  definition: { readonly name: Name } & DependencySettings,
): DependencyDefinition<Name> {
  const { name: _, ...settings } = parseOptions(
    `defineDependency("${definition.name}")`,
    dependencyOptions,
    definition,
  );
  return Object.freeze({ name: definition.name, settings: Object.freeze(settings) });
}

/** True for what {@link defineDependency} made, of any copy of this package. */
export function isDependency(value: unknown): value is DependencyDefinition {
  if (typeof value !== "object" || value === null) return false;
  const { name, settings } = value as Partial<DependencyDefinition>;
  return typeof settings === "object" && dependencyOptions.safeParse({ ...settings, name }).success;
}
